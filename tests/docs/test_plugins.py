"""docs/plugins.md: its package is installed as written, and its settings and commands hold."""

import os
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from hansa.api.spec import FederationSpec
from hansa.manifests import plugins
from tests.support import packages
from tests.support.pages import blocks
from tests.support.sources import ROOT

PAGE = (ROOT / "docs/plugins.md").read_text()


def write(site: Path) -> Path:
    """The page's package."""
    points: dict[str, dict[str, str]] = {}
    for block in blocks(PAGE, "toml"):
        for group, entries in tomllib.loads(block)["project"]["entry-points"].items():
            points[group] = {name: at.removeprefix("my_package:") for name, at in entries.items()}
    return packages.install(site, "my_package", "\n\n".join(blocks(PAGE, "python")), points)


def test_the_pages_settings_fit_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(write(tmp_path)))
    [text] = blocks(PAGE, "yaml")
    environments = [{"name": "maze", "world": "maze"}]
    settings = {**yaml.safe_load(text), "environments": environments}
    plugins.check(FederationSpec.model_validate(settings))


@pytest.mark.slow
def test_the_pages_package_keeps_the_contract_by_the_pages_commands(tmp_path: Path) -> None:
    site = write(tmp_path / "site")
    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH", "")]))
    commands = [line for block in blocks(PAGE, "sh") for line in block.splitlines()]
    assert len(commands) == 2
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "pytest"
        alone = ("-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(tmp_path))
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", *alone, *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout[-3000:]
        assert " passed" in ended.stdout
