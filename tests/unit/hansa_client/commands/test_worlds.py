"""`hansa worlds`: the list of worlds, and scores of players without a model."""

import json
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from hansa.api.worlds import BUILTIN, WORLDS
from hansa.core import entry_points
from hansa.core.entry_points import Registry
from hansa_worlds import listing, registry
from hansa_worlds.base import World
from hansa_worlds.maze.world import Maze
from tests.support.commands import hansa


def data(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert hansa("worlds", *arguments, "-o", "json") == 0
    return json.loads(capsys.readouterr().out)


def test_a_world_is_listed_with_its_tasks_turns_and_players(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (entry,) = data(capsys, "maze")
    assert entry["tasks"] == {"train": 4000, "validation": 400, "test": 25}
    assert entry["maxTurns"] == 15
    assert entry["players"] == ["random", "legal", "greedy", "expert"]
    assert entry["from"] == "builtin"
    assert entry["about"].startswith("Walk to the goal")


def test_options_change_what_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    (entry,) = data(capsys, "maze", "--option", "map=generated", "--option", "max_turns=9")
    assert entry["tasks"]["test"] == 400
    assert entry["maxTurns"] == 9
    assert entry["scores"] is None  # those that come with us are of the default options


def test_the_list_is_a_table_with_a_line_per_world(capsys: pytest.CaptureFixture[str]) -> None:
    assert hansa("worlds", "maze", "wordle") == 0
    title, maze, wordle, _ = capsys.readouterr().out.splitlines()
    assert title.split()[:5] == ["WORLD", "TRAIN", "VALIDATION", "TEST", "TURNS"]
    assert maze.split()[:5] == ["maze", "4000", "400", "25", "15"]
    assert wordle.split()[:5] == ["wordle", "24", "6", "10", "8"]


class Stubborn(Maze):
    """Cannot be made."""

    def __init__(self, options: object) -> None:
        raise RuntimeError("no server")


def test_a_world_that_cannot_be_made_does_not_hide_the_others(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def kind(name: str) -> type[World]:
        return Stubborn if name == "stubborn" else Maze

    monkeypatch.setattr(registry, "load_world", kind)
    table = dict.fromkeys(("maze", "stubborn"), BUILTIN["maze"])
    monkeypatch.setattr(registry, "WORLDS", Registry(group="none", builtin=table))
    monkeypatch.setattr(listing, "WORLDS", registry.WORLDS)
    maze, stubborn = data(capsys)
    assert maze["tasks"]["test"] == 25
    assert stubborn["trouble"] == "cannot be loaded (RuntimeError: no server)"
    (scored,) = data(capsys, "--score", "--episodes", "5")
    assert scored["world"] == "maze"
    assert hansa("worlds") == 0
    assert "no server" in capsys.readouterr().out


def test_worlds_of_packages_have_a_table_of_their_own_with_what_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rooms = EntryPoint("rooms", "hansa_worlds.maze.world:Maze", WORLDS.group)
    lost = EntryPoint("lost", "no_such_package:World", WORLDS.group)
    monkeypatch.setattr(entry_points, "entry_points", lambda group: [rooms, lost])
    table = Registry(group=WORLDS.group, builtin={"maze": BUILTIN["maze"]})
    for module in (registry, listing):
        monkeypatch.setattr(module, "WORLDS", table)
    assert hansa("worlds") == 0
    builtin, packaged = capsys.readouterr().out.split("\n\n")
    assert "PACKAGE" not in builtin and "\nmaze " in builtin and "rooms" not in builtin
    title, *rows = packaged.splitlines()
    assert title.split()[-3:] == ["PACKAGE", "ABOUT", "MISSING"]
    assert [row.split()[0] for row in rows] == ["lost", "rooms"]
    assert rows[0].rstrip().endswith("(ModuleNotFoundError: No module named 'no_such_package')")


def test_scores_come_with_intervals(capsys: pytest.CaptureFixture[str]) -> None:
    (entry,) = data(capsys, "maze", "--score", "--episodes", "100")
    assert list(entry["players"]) == ["random", "legal", "greedy", "expert"]
    for figures in entry["players"].values():
        low, high = figures["interval"]
        assert low <= figures["success"] <= high
        assert figures["tasks"] == 25
    assert entry["players"]["random"]["episodes"] == 100
    assert entry["players"]["expert"]["success"] == 1.0


def test_scores_are_printed_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert hansa("worlds", "wordle", "--score", "--split", "validation", "--episodes", "6") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [
        ["wordle", player] for player in ("random", "legal", "greedy", "expert")
    ]
    assert lines[-1].split()[2] == "100.0%"


class Levels(Maze):
    """A maze with two kinds of tasks."""

    def group(self, task: Any) -> str:
        return f"row-{int(task.payload[1]) // 5}"


def test_scores_of_each_kind_of_task_are_shown_when_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "load_world", lambda name: Levels)
    assert "groups" not in data(capsys, "maze", "--score")[0]["players"]["expert"]
    (entry,) = data(capsys, "maze", "--score", "--by-group")
    assert list(entry["players"]["expert"]["groups"]) == ["row-0", "row-1"]
    assert hansa("worlds", "maze", "--score", "--by-group") == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        "WORLD",
        *["maze"] * 4,
        *["row-0"] * 4,
        *["row-1"] * 4,
    ]


@pytest.mark.parametrize(
    "arguments, message",
    [
        pytest.param(["chess"], "world: got 'chess'", id="world"),
        pytest.param(["maze", "--option", "size=99"], "options.size: got 99", id="option"),
        pytest.param(["maze", "--score", "--option", "sise=9"], "options.sise: unknown", id="play"),
        pytest.param(["--option", "size=9"], "--option: got it for all worlds", id="for all"),
        pytest.param(
            ["maze", "wordle", "--option", "max_turns=9"],
            "--option: got it for 2 worlds, expected one",
            id="for two",
        ),
    ],
)
def test_what_is_wrong_is_named(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hansa("worlds", *arguments) == 2
    assert capsys.readouterr().err.startswith(f"error: {message}")
