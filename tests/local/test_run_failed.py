"""A round that fails: the cause once and first, nobody else called failed, and a retry."""

from pathlib import Path
from typing import Any

import pytest

from tests.support import small
from tests.support.small import hansa

pytestmark = pytest.mark.slow

BROKEN = "TICKETS_BROKEN"
WORLD = f'''
"""Hands out tickets, while its server is up."""

import os
from pathlib import Path

from hansa_worlds import Observation, Task, World


class Tickets(World):
    name = "tickets"
    max_turns = 2

    def tasks(self, split):
        return [Task(f"{{split}}-{{n}}", split, (split, str(n))) for n in range(40)]

    def _begin(self, task):
        return "Reach the goal."

    def _act(self, action):
        if Path(os.environ["{BROKEN}"]).exists():
            raise LookupError("the server is down")
        return Observation("You reached the goal.", 1.0, True)
'''
CAUSE = "world tickets failed in"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A package with that world, installed as pip would leave it, and a file that breaks it."""
    path = small.install_tickets(tmp_path / "site", WORLD)
    return {"PYTHONPATH": path, BROKEN: str(tmp_path / "broken")}


def manifest(folder: Path, **changes: Any) -> Path:
    environments: list[dict[str, Any]] = [
        {"name": "help", "world": "tickets"},
        {"name": "maze", "world": "maze", "options": {"map": "generated", "max_turns": 4}},
    ]
    spec: dict[str, Any] = {
        "rounds": 1,
        "exploration": {"tasksPerRound": 4, "maxNewTokens": 8},
        "experience": {"demonstrations": 0},
        "evaluation": {"tasks": 4},
        "environments": environments,
        "participation": {"retries": 0},
    }
    return small.write_manifest(folder, **{**spec, **changes})


def test_a_failed_round_names_its_cause_once_and_first_and_can_be_retried(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    Path(environ[BROKEN]).touch()
    out = tmp_path / "run"
    with small.Run(manifest(tmp_path), out, **environ) as run:
        assert run.wait() == 1
    sentence, _, hint = run.said.partition("error: ")[2].partition("\n\nhint: ")
    assert sentence.startswith(f"help: {CAUSE}"), run.said
    assert "LookupError at tickets/world.py:" in sentence
    assert run.said.count(CAUSE) == 1, run.said
    assert "maze was stopped" in sentence and "failed: maze" not in run.said
    assert run.said.count("hansa retry") == 1, "what to do is said once, too"
    assert f"`hansa retry {out}`" in hint and f"`hansa logs {out}`" in hint
    status = small.status(out)
    states = {line["name"]: (line["state"], line["healthy"]) for line in status["environments"]}
    assert states == {"help": ("Failed", False), "maze": ("Waiting", True)}
    assert f"JobFailed help is left out: {CAUSE}" in run.events, "the log has each event"

    watched = hansa("watch", out)
    assert watched.returncode == 1
    assert f"error: run {out}: Failed: help: {CAUSE}" in watched.stderr
    assert f"`hansa retry {out}`" in watched.stderr

    Path(environ[BROKEN]).unlink()
    retried = hansa("retry", out, **environ)
    assert retried.returncode == 0, retried.stderr
    assert "resumed after the failed round 1" in retried.stderr
    history = small.status(out)["history"]
    assert [entry["outcome"] for entry in history] == ["base", "failed", "aggregated"]

    again = hansa("retry", out, **environ)
    assert (again.returncode, again.stdout) == (
        0,
        f"run {out} unchanged (nothing has failed: it is Succeeded)\n",
    )
