"""docs/supply-chain.md: an image is built again here, and the list of what is in it is the same."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hansa import __version__
from tests.attested import ROOT, attest, page_commands
from tools.oci import Layout

LAYOUT = ROOT / ".cache/images/layout"
TYPED_ELSEWHERE = ("Publish", "Check a published image")
"""Sections that need a registry: tests/unit/tools/test_images_registry.py types them."""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A copy of this checkout that shares its images; what was built for comparing goes again."""
    listed = ("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z")
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file() and name != ".cache":
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tmp_path / name)
    (ROOT / ".cache").mkdir(exist_ok=True)
    (tmp_path / ".cache").symlink_to(ROOT / ".cache")
    yield tmp_path
    layout = Layout(LAYOUT)
    layout.save(layout.others("hansa-server:again"))


def test_an_image_that_is_built_again_has_the_same_list(folder: Path) -> None:
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        pytest.skip("needs root and debootstrap, to build without a registry")
    commands = page_commands("Rebuild and compare")
    elsewhere = [each for title in TYPED_ELSEWHERE for each in page_commands(title)]
    assert sorted([*commands, *elsewhere]) == sorted(page_commands()), "a section nobody types"
    said = ""
    for command in commands:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env=os.environ | {"HANSA_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            timeout=1500,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        said = done.stdout
    assert said == (folder / "again/hansa-server.cdx.json").read_text()
    parts = {each["name"] for each in json.loads(said)["components"]}
    assert {"debian", "libc6", "hansa", "numpy"} <= parts
    assert "torch" not in parts

    done = attest(folder, "verify", LAYOUT, f"hansa-server:{__version__}", folder / "told")
    assert done.returncode == 3, done.stdout
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.startswith("differs")] == []
    assert "cannot be checked: hashes: packages come from an environment" in done.stdout
