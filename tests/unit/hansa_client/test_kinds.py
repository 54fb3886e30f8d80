"""What of its world's kinds of tasks a silo tells: few, and the same in every round."""

import pytest

from hansa.api.task_kinds import MOST_KINDS
from hansa_client import figures
from hansa_worlds import Task, World
from tests.unit.hansa_client.rounds import Assign


def test_of_forty_levels_at_most_twelve_kinds_leave_the_silo_and_every_round_has_the_same(
    assign: Assign,
) -> None:
    names: set[str] = set()
    for round_ in range(1, 6):
        given = assign(world="babyai", options={}, round=round_, exploration={"tasksPerRound": 400})
        kinds = figures.name_kinds(given)
        assert len(kinds) == 400
        names |= set(kinds.values())
    assert len(names) == MOST_KINDS
    assert "" not in names


def test_a_world_that_names_its_tasks_instead_of_kinds_tells_nothing_by_kind(
    assign: Assign, monkeypatch: pytest.MonkeyPatch
) -> None:
    def name(_: World, task: Task) -> str:
        return task.id

    assert "" not in set(figures.name_kinds(assign()).values())
    monkeypatch.setattr("hansa_worlds.maze.world.Maze.group", name)
    assert set(figures.name_kinds(assign()).values()) == {""}


def test_a_kind_that_no_list_of_the_world_has_is_not_told(
    assign: Assign, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = sorted(set(figures.name_kinds(assign()).values()))
    monkeypatch.setattr("hansa_worlds.maze.world.Maze.groups", lambda _: known[1:])
    assert set(figures.name_kinds(assign()).values()) == {"", *known[1:]}
