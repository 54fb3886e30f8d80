"""docs/plugins.md: its package is installed as written, and its commands and sentences hold."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from hansa.api.plugin_fields import MOST_BYTES
from hansa.api.spec import FederationSpec
from hansa.api.worlds import WORLDS
from hansa.core.errors import InputError
from hansa.manifests import plugins
from hansa.tracking.base import TRACKERS
from tests.support import packages
from tests.support.sources import ROOT

PAGE = (ROOT / "docs/plugins.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


def write(site: Path) -> Path:
    """The page's package."""
    points: dict[str, dict[str, str]] = {}
    for block in blocks("toml"):
        for group, entries in tomllib.loads(block)["project"]["entry-points"].items():
            points[group] = {name: at.removeprefix("my_package:") for name, at in entries.items()}
    return packages.install(site, "my_package", "\n\n".join(blocks("python")), points)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(write(tmp_path)))


def check(**changes: Any) -> None:
    [text] = blocks("yaml")
    shown = yaml.safe_load(text)
    environments = [{"name": "maze", "world": "maze"}]
    for section, fields in changes.items():
        shown[section] = {**shown[section], **fields}
    plugins.check(FederationSpec.model_validate({**shown, "environments": environments}))


def test_every_group_of_entry_points_has_a_row() -> None:
    groups = {plugins.STRATEGY.group, plugins.LEARNER.group, WORLDS.group, TRACKERS.group}
    assert set(re.findall(r"^\| `(hansa\.\w+)` \|", PAGE, flags=re.MULTILINE)) == groups
    assert plugins.STRATEGY.whole in PAGE
    assert plugins.LEARNER.whole in PAGE
    assert f"{MOST_BYTES:,} bytes" in PAGE


@pytest.mark.usefixtures("here")
def test_the_page_says_what_is_said_of_wrong_options() -> None:
    check()
    sentences = []
    for options in ({"plcae": 0.25}, {"place": 2}):
        with pytest.raises(InputError) as refused:
            check(aggregation={"options": options})
        sentences.append(refused.value.message)
    with pytest.raises(ValueError, match="expected none") as builtin:
        check(aggregation={"strategy": "mean"})
    sentences.append(re.findall(r"options\.place: .* expected none", str(builtin.value))[0])
    assert all(sentence in PAGE for sentence in sentences), sentences


def test_the_page_says_what_is_said_of_a_missing_plug_in() -> None:
    with pytest.raises(InputError) as refused:
        check()
    begun, _, _ = refused.value.message.partition("mean or ")
    assert f"{begun}mean or ..." in PAGE


@pytest.mark.slow
def test_the_pages_package_keeps_the_contract_by_the_pages_commands(tmp_path: Path) -> None:
    site = write(tmp_path / "site")
    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH", "")]))
    commands = [line for block in blocks("sh") for line in block.splitlines()]
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
