"""Every world, with its default and its demo options, keeps the contract of worlds."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from hansa.api.task_kinds import MOST_KINDS, public_names
from hansa.api.worlds import BUILTIN
from hansa_worlds import (
    DEMO_OPTIONS,
    Move,
    Observation,
    Split,
    Task,
    World,
    make,
    names,
)
from hansa_worlds.contract import CHECKS, MOST_CALLS, WorldContractError
from hansa_worlds.maze.world import Maze

DOORS = {"agentgym", "gymnasium", "mixed", "openenv", "proxy"}
"""Worlds of others, played through one of ours: they need options or packages."""
VARIANTS: dict[str, tuple[str, dict[str, object]]] = {
    **{f"{name}-default": (name, {}) for name in BUILTIN if name not in DOORS},
    **{f"{name}-demo": (name, options) for name, options in DEMO_OPTIONS.items()},
    "maze-smallest": ("maze", {"map": "generated", "size": 4, "max_turns": 3}),
    "maze-low-wall": ("maze", {"map": "generated", "size": 4, "low_wall": True}),
    "maze-tempting": (
        "maze",
        {"map": "generated", "size": 6, "low_wall": True, "far": 8, "max_turns": 5},
    ),
    "webshop-budget": ("webshop", {"products": 60, "rule": "budget"}),
    "maze-largest": ("maze", {"map": "generated", "size": 12, "prompt": "none"}),
    "wordle-openings-by-secret": ("wordle", {"opening": True}),
    "wordle-common-words": ("wordle", {"list": "common", "prompt": "brief"}),
    "webshop-another-catalogue": ("webshop", {"catalogue": 3, "results": 2}),
    "webshop-in-few-words": (
        "webshop",
        {"products": 60, "attributes": 2, "choices": 1, "results": 4, "text": "short"},
    ),
    "webshop-smallest": (
        "webshop",
        {"products": 24, "attributes": 1, "choices": 0, "results": 1, "max_turns": 8},
    ),
    "babyai-short": ("babyai", {"text": "short", "actions": "short", "prompt": "none"}),
    "babyai-locks": ("babyai", {"levels": [25, 26, 28, 29, 32]}),
    "textcraft-without-distractors": ("textcraft", {"distractors": 0}),
    "textcraft-deep": ("textcraft", {"depths": [3, 4], "variants": 3, "prompt": "none"}),
    "mixed": (
        "mixed",
        {
            "worlds": [
                {"name": "one", "world": "maze", "options": DEMO_OPTIONS["maze"]},
                {"name": "two", "world": "wordle", "options": DEMO_OPTIONS["wordle"]},
            ]
        },
    ),
    "textcraft-small": ("textcraft", {"recipes": "small", "max_turns": 9, "prompt": "brief"}),
}


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS.keys())
@pytest.mark.parametrize(("name", "options"), VARIANTS.values(), ids=VARIANTS.keys())
def test_world_keeps_the_contract(check, name, options):
    check(lambda: make(name, options))


@pytest.mark.parametrize("name", sorted(DEMO_OPTIONS))
def test_demo_options_leave_enough_tasks_to_measure_with(name):
    world = make(name, DEMO_OPTIONS[name])
    assert len(world.tasks("test")) >= 250
    assert len(world.tasks("validation")) >= 100
    assert len(world.tasks("train")) >= 500


@pytest.mark.parametrize("name", sorted(DEMO_OPTIONS))
def test_the_demos_tasks_are_of_three_to_twelve_kinds_and_each_has_several(name):
    world = make(name, DEMO_OPTIONS[name])
    counts = Counter(world.group(task) for task in world.tasks("train"))
    assert 3 <= len(counts) <= MOST_KINDS
    assert min(counts.values()) >= 10
    assert set(public_names(world.groups(), len(world.tasks("train"))).items()) == {
        (k, k) for k in counts
    }


def test_the_demo_has_five_builtin_worlds_and_each_has_a_name():
    assert len(DEMO_OPTIONS) == 5
    assert set(DEMO_OPTIONS) <= set(BUILTIN) - DOORS
    assert set(BUILTIN) <= set(names())


class Forgetful(Maze):
    """A maze that keeps something from one episode to the next."""

    def _act(self, action: str) -> Observation:
        self._played = getattr(self, "_played", 0) + 1
        seen = super()._act(action)
        return Observation(f"{seen.text} {self._played}", seen.reward, seen.done)


class Fragile(Maze):
    def _act(self, action: str) -> Observation:
        return super()._act(action.encode().decode())


class Hopeless(Maze):
    def expert(self) -> Move:
        return Move("Why not?", self.legal()[0])


class Thoughtless(Maze):
    def expert(self) -> Move:
        return Move("", super().expert().action)


class Slow(Maze):
    def _act(self, action: str) -> Observation:
        for _ in range(MOST_CALLS):
            len(action)
        return super()._act(action)


class Moody(Maze):
    """A maze that names its kinds as it likes at the moment."""

    def group(self, task: Task) -> str:
        return f"after {self._turns} turns, {id(self)}"


class Verbose(Maze):
    def group(self, task: Task) -> str:
        return f"{task.id}\n{super().group(task)}"


class Splitting(Maze):
    """A maze of which every task is a kind of its own."""

    def group(self, task: Task) -> str:
        return task.id


class Partial(Maze):
    """A maze that knows the kind of near goals alone."""

    def group(self, task: Task) -> str:
        kind = super().group(task)
        return kind if kind < "moves 05" else ""


class Leaking(Maze):
    """A maze whose test tasks can be trained on."""

    def tasks(self, split: Split) -> Sequence[Task]:
        return [replace(task, split=split) for task in super().tasks("train")[:9]]


class Bare(World):
    """The least that a world can be: three methods."""

    name = "bare"

    def tasks(self, split: Split) -> Sequence[Task]:
        return [Task(f"bare-{split}-{i}", split, (f"{split}{i}",)) for i in range(3)]

    def _begin(self, task: Task) -> str:
        return f"Say {task.payload[0]}."

    def _act(self, action: str) -> Observation:
        return Observation("Well.")


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (Forgetful, "start forgets the episode before"),
        (Hopeless, "expert solves its tasks"),
        (Thoughtless, "experts think before they act"),
        (Slow, "steps are cheap"),
        (Leaking, "splits are disjoint"),
        (Moody, "kinds of tasks are few"),
        (Verbose, "kinds of tasks are few"),
        (Splitting, "kinds of tasks are few"),
        (Partial, "kinds of tasks are few"),
    ],
)
def test_contract_finds_a_broken_world(broken, check):
    with pytest.raises(WorldContractError):
        CHECKS[check](lambda: broken({"map": "generated"}))


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS.keys())
def test_a_world_of_three_methods_keeps_the_contract(check):
    check(lambda: Bare({}))


def test_contract_finds_a_world_that_raises():
    with pytest.raises(UnicodeEncodeError):
        CHECKS["hostile text is only a wasted turn"](lambda: Fragile({}))
