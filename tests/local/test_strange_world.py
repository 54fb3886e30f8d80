"""A stranger's package in a run: its world breaks off episodes, and its experts come as a file."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import small

SECRET = "the-patient-is-Ada"
WORLD = f'''
"""Hands out tickets, and chokes on some of them."""

from hansa_worlds import Observation, Task, World


class Tickets(World):
    name = "tickets"
    max_turns = 2

    def tasks(self, split):
        return [Task(f"{{split}}-{{n}}", split, (split, str(n))) for n in range(40)]

    def _begin(self, task):
        self._number = int(task.payload[1])
        return "Reach the goal."

    def _act(self, action):
        if self._number % 5 == 0:
            raise LookupError("{SECRET}")
        return Observation("You reached the goal.", 1.0, True)
'''
TALK = {
    "item_id": "tickets_1",
    "conversations": [
        {"from": "human", "loss": None, "value": "Reach the goal."},
        {"from": "gpt", "loss": False, "value": "OK."},
        {"from": "human", "loss": None, "value": "You are at position 1"},
        {"from": "gpt", "loss": True, "value": "move up"},
    ],
}


@pytest.fixture
def path(tmp_path: Path) -> str:
    """PYTHONPATH with the stranger's package on it, installed as pip would leave it."""
    return small.install_tickets(tmp_path / "site", WORLD)


def manifest(folder: Path, share: float) -> Path:
    shown = folder / "shown.jsonl"
    shown.write_text(json.dumps(TALK))
    environments: list[dict[str, Any]] = [
        {"name": "help", "world": "tickets", "demonstrationsFrom": str(shown)},
        {"name": "maze", "world": "maze", "options": {"map": "generated", "max_turns": 4}},
    ]
    rules = {"tasksPerRound": 10, "maxNewTokens": 8, "maxBrokenEpisodes": share}
    return small.write_manifest(
        folder,
        rounds=1,
        exploration=rules,
        evaluation={"tasks": 20, "samplesPerTask": 2},
        environments=environments,
        participation={"retries": 0, "minimumUpdates": 1},
    )


def said(out: Path) -> str:
    """All that a run wrote for people, and to the store."""
    files = [file for file in out.rglob("*") if file.is_file()]
    return "".join(file.read_bytes().decode(errors="replace") for file in files)


@pytest.mark.slow
def test_a_run_goes_on_without_broken_episodes_and_counts_them(tmp_path: Path, path: str) -> None:
    out = tmp_path / "out"
    small.finish(manifest(tmp_path, 0.6), out, PYTHONPATH=path)
    environments = {line["name"]: line for line in small.status(out)["environments"]}
    broken, explored = environments["help"]["broken"], environments["help"]["explored"]
    assert broken > 0
    assert broken + explored == 10
    assert environments["maze"].get("broken", 0) == 0
    base = small.status(out)["history"][0]
    assert base["episodes"]["maze"] == 40
    assert base["effective"]["maze"] < 40
    assert SECRET not in said(out)


@pytest.mark.slow
def test_too_many_broken_episodes_leave_the_environment_out_and_say_why(
    tmp_path: Path, path: str
) -> None:
    out = tmp_path / "out"
    small.finish(manifest(tmp_path, 0.1), out, PYTHONPATH=path)
    environments = {line["name"]: line for line in small.status(out)["environments"]}
    assert environments["maze"]["state"] == "Updated"
    assert environments["help"]["state"] == "Failed"
    message = environments["help"]["message"]
    assert "world tickets failed in " in message
    assert "LookupError at tickets/world.py:20" in message
    assert SECRET not in said(out)
