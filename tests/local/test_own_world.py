"""A stranger's package is installed, found, keeps the contract and takes part in a federation."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import small
from tests.support.small import hansa

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[2] / "examples/03-own-world"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The package as pip installs it, in a folder of its own: variables that make it seen."""
    source = tmp_path_factory.mktemp("source") / "package"
    shutil.copytree(EXAMPLE, source)  # building writes beside the sources
    target = tmp_path_factory.mktemp("installed")
    offline = ("--no-build-isolation", "--no-deps", "--no-index", "--no-cache-dir")
    pip = (sys.executable, "-m", "pip", "install", "--quiet", *offline, "--target", str(target))
    subprocess.run([*pip, str(source)], check=True, capture_output=True, timeout=300)
    path = [str(target), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(path)}


def test_the_world_is_found_by_its_entry_point(installed: dict[str, str]) -> None:
    listed = hansa("worlds", "-o", "json", **installed)
    assert listed.returncode == 0, listed.stderr
    assert "tickets" in listed.stdout
    assert "tickets" not in hansa("worlds", "-o", "json").stdout


def test_the_packages_own_tests_pass(installed: dict[str, str], tmp_path: Path) -> None:
    quiet = ("-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(tmp_path))
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *quiet, str(EXAMPLE / "test_ticket_triage.py")],
        env={**os.environ, **installed, "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    assert "passed" in ended.stdout


def test_the_world_takes_part_in_a_federation_beside_maze(
    installed: dict[str, str], tmp_path: Path
) -> None:
    manifest = shutil.copy(EXAMPLE / "federation.yaml", tmp_path)
    out = tmp_path / "run"
    assert hansa("validate", manifest, **installed).returncode == 0
    small.finish(Path(manifest), out, "--embedded-store", **installed)
    printed = hansa("status", out, "-o", "json", **installed)
    status = json.loads(printed.stdout)["status"]
    assert status["phase"] == "Succeeded"
    assert set(status["history"][-1]["success"]) == {"maze", "tickets"}
    assert status["history"][-1]["updates"] == "2/2"
    first, last = (status["history"][at]["success"]["tickets"] for at in (0, -1))
    assert first < 0.1 and last > 0.3, "written in words that the tiny model knows, it is learned"


def test_without_the_package_the_world_is_unknown() -> None:
    refused = hansa("validate", EXAMPLE / "federation.yaml")
    assert refused.returncode == 2
    assert "environments[1].world: got 'tickets', expected" in refused.stderr
