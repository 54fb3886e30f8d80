"""Kinds of tasks mean what they say, world by world."""

from collections import Counter

import pytest

from hansa_worlds import DEMO_OPTIONS, Task, World, make
from hansa_worlds.base import SPLITS


def solve(world: World, task: Task) -> tuple[int, int]:
    """Turns of the expert, and how many of them craft."""
    seen, moves = world.start(task), []
    while not seen.done:
        moves.append(world.expert().action)
        seen = world.step(moves[-1])
    assert world.success
    return len(moves), sum(move.startswith("craft") for move in moves)


def test_a_mazes_kind_is_the_way_that_the_expert_walks() -> None:
    world = make("maze", DEMO_OPTIONS["maze"])
    for task in world.tasks("train")[:40]:
        turns, _ = solve(world, task)
        assert world.group(task) == f"moves {turns:02d}"


def test_far_goals_are_one_kind() -> None:
    world = make("maze", {"map": "generated", "size": 12})
    tasks = world.tasks("train")[:300]
    far = [task for task in tasks if world.group(task) == "moves 12 or more"]
    assert {solve(world, task)[0] for task in far} == {12, 13, 14}


def test_a_goal_of_textcraft_takes_as_many_crafts_as_it_is_deep_or_more() -> None:
    world = make("textcraft", DEMO_OPTIONS["textcraft"])
    least: dict[str, int] = {}
    for task in world.tasks("train")[:60]:
        kind = world.group(task)
        least[kind] = min(solve(world, task)[1], least.get(kind, 99))
    assert least["depth 01"] == 1
    assert least["depth 02"] >= 2
    assert least["depth 03"] >= 3


def test_wordles_kind_is_what_the_opening_tells() -> None:
    world = make("wordle", DEMO_OPTIONS["wordle"])
    for task in world.tasks("train")[:200]:
        marks = world.start(task).text.rpartition(": ")[2]
        known = sum(mark in "gy" for mark in marks)
        assert world.group(task) == f"letters told {min(known, 3)}" + " or more" * (known >= 3)


def test_without_an_opening_it_is_the_secrets_vowels() -> None:
    world = make("wordle", {})
    kinds = {task.payload[0]: world.group(task) for task in world.tasks("train")}
    assert all(kind.startswith("vowels ") for kind in kinds.values())


@pytest.mark.parametrize("tasks, parts", [(2000, 8), (20, 3), (3, 1)])
def test_a_servers_tasks_are_shared_out_to_few_even_parts_in_every_split(
    tasks: int, parts: int
) -> None:
    world = make("agentgym", {"environment": "webshop", "tasks": [0, tasks]})
    for split in SPLITS:
        counts = Counter(world.group(task) for task in world.tasks(split))
        assert counts.keys() <= {f"part {number} of {parts}" for number in range(1, parts + 1)}
        assert max(counts.values()) - min(counts.values()) <= 1


def test_a_large_world_is_asked_for_few_of_its_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def group(_: World, task: Task) -> str:
        asked.append(task.id)
        return "far" if task.id.endswith("7") else ""

    world = make("maze", {"map": "generated"})
    monkeypatch.setattr(type(world), "group", group)
    assert world.groups() == ["far"]
    assert len(asked) < 1024 < len(world.tasks("train"))
