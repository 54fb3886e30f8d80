"""`hansa play RUN -e NAME` and `hansa evaluate RUN -e NAME` take what they play from the run."""

import json
from pathlib import Path
from typing import Any

import pytest

from hansa.core.errors import InputError
from hansa.local.rundir import RunDir
from hansa_client.commands import common
from tests.support.builders import make_federation
from tests.support.commands import call

OPTIONS = {"map": "generated", "size": 6}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The folder of a run with two environments, on a model of its own."""
    environments = [
        {"name": "left", "world": "maze", "options": OPTIONS},
        {"name": "right", "world": "wordle"},
    ]
    model = {"source": "path:/models/own"}
    RunDir(tmp_path).save(make_federation(environments=environments, model=model))
    return tmp_path


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Path | None]]:
    """The base models and adapters that were to be loaded."""
    asked: list[tuple[str, Path | None]] = []

    def load_base(source: str, adapter: Path | None, threads: int) -> Any:
        asked.append((source, adapter))
        raise InputError("loaded")

    def pull(
        folder: RunDir, to: Path, round_: str, _: None, credentials: Path, *__: Any
    ) -> tuple[int, Path, Any]:
        assert (round_, credentials) == ("last", Path("reader.json"))
        return 3, to, {}

    monkeypatch.setattr(common, "load_base", load_base)
    monkeypatch.setattr("hansa.publish.pull.pull", pull)
    return asked


def test_an_environment_of_a_run_has_its_world_and_options(run: Path) -> None:
    given = common.AgentOptions(environment="left", option=["size=8"])
    setting = given.find_setting(str(run))
    assert (setting.world, setting.model) == ("maze", "path:/models/own")
    assert setting.options == {"map": "generated", "size": 8}


def test_a_world_by_its_name_plays_alone() -> None:
    setting = common.AgentOptions(options=json.dumps(OPTIONS)).find_setting("maze")
    assert (setting.world, setting.options, setting.run) == ("maze", OPTIONS, None)


@pytest.mark.parametrize("command", ["play", "evaluate"])
def test_the_agent_of_a_run_is_its_last_adapter_on_its_base(
    run: Path,
    loaded: list[tuple[str, Path | None]],
    command: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, _, err = call(capsys, command, run, "-e", "left", "--credentials", "reader.json")
    assert code == 2
    assert f"adapter of round 3 of {run}" in err
    [(source, adapter)] = loaded
    assert source == "path:/models/own" and adapter is not None


@pytest.mark.parametrize("command", ["play", "evaluate"])
@pytest.mark.parametrize(
    "environment, came", [((), "nothing"), (("-e", "up"), "up")], ids=["none", "unknown"]
)
def test_an_environment_that_the_run_lacks_is_answered_with_those_it_has(
    run: Path,
    command: str,
    environment: tuple[str, ...],
    came: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, _, err = call(capsys, command, run, *environment)
    assert (code, err) == (2, f"error: --environment: got {came}, expected left or right\n")
