"""World `mixed`: several worlds in one silo, such as the baseline of centralized training."""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hansa_worlds.base import Move, Observation, Split, Task, TaskList, World
from hansa_worlds.errors import OptionError
from hansa_worlds.options import Options

NAME = "mixed"
_FIELDS = {"name", "world", "options", "demonstrations", "demonstrationsFrom"}
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


@dataclass(frozen=True)
class MixedPart:
    """One of the worlds, as an environment of its own would have it."""

    name: str
    """Unique; stands before the ids of its tasks, and its seeds are drawn from it."""
    world: str
    """World that it plays."""
    options: Mapping[str, object] = field(default_factory=dict)
    """That world's options."""
    demonstrations: int | None = None
    """Its own number of demonstrations."""
    demonstrations_from: str | None = None
    """Its own file of demonstrations."""


def parse_parts(options: Mapping[str, object]) -> list[MixedPart]:
    """The parts that the options name, checked."""
    given = options.get("worlds")
    if not isinstance(given, list) or not given:
        raise OptionError("options.worlds: expected a list of {name, world, options}")
    parts = [_parse_part(index, each) for index, each in enumerate(given)]
    names = [part.name for part in parts]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise OptionError(f"options.worlds[{index}].name: got {name!r} a second time")
    return parts


def _parse_part(index: int, given: object) -> MixedPart:
    where = f"options.worlds[{index}]"
    if not isinstance(given, dict) or not {"name", "world"} <= given.keys() <= _FIELDS:
        raise OptionError(f"{where}: expected name and world, and at most {sorted(_FIELDS)}")
    name, world, options = given["name"], given["world"], given.get("options", {})
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise OptionError(f"{where}.name: got {name!r}, expected letters, digits and dashes")
    if world == NAME or not isinstance(world, str):
        raise OptionError(f"{where}.world: got {world!r}, expected the name of another world")
    if not isinstance(options, dict):
        raise OptionError(f"{where}.options: got {options!r}, expected a mapping")
    count = given.get("demonstrations")
    if count is not None and (type(count) is not int or count < 0):
        raise OptionError(f"{where}.demonstrations: got {count!r}, expected a whole number from 0")
    return MixedPart(name, world, options, count, given.get("demonstrationsFrom"))


def wrap_task(part: MixedPart, task: Task) -> Task:
    """A part's task as a task of the whole."""
    return Task(f"{part.name}/{task.id}", task.split, (part.name, *task.payload))


class Mixed(World):
    """Several worlds in one silo; every task is one of theirs.

    It has all tasks of its parts and plays each by its part's rules, turns and prompt. The client
    demonstrates, explores and holds out as many tasks of each part as of an environment
    (hansa_client.rollout.mixed_silo).
    """

    name = NAME
    rules = "Each task is one of several worlds, and begins with the rules of its world."
    brief = rules

    def _read(self, options: Mapping[str, object]) -> Options:
        from hansa_worlds.registry import make

        self.options = dict(options)
        self._parts = parse_parts(options)
        self._worlds = {part.name: make(part.world, part.options) for part in self._parts}
        self.max_turns = max(world.max_turns for world in self._worlds.values())
        self.has_rules = any(world.has_rules for world in self._worlds.values())
        vars(self)["waits"] = any(world.waits for world in self._worlds.values())
        self._now = self._worlds[self._parts[0].name]
        return Options({name: value for name, value in options.items() if name != "worlds"})

    def tasks(self, split: Split) -> Sequence[Task]:
        """All tasks of the first part, then of the second, and so on."""
        found = [(part, self._worlds[part.name].tasks(split)) for part in self._parts]

        def build(index: int) -> Task:
            for part, tasks in found:
                if index < len(tasks):
                    return wrap_task(part, tasks[index])
                index -= len(tasks)
            raise IndexError(index)

        return TaskList(sum(len(tasks) for _, tasks in found), build)

    def _begin(self, task: Task) -> str:
        raise NotImplementedError  # `start` belongs to the part

    def _act(self, action: str) -> Observation:
        raise NotImplementedError  # `step` belongs to the part

    def start(self, task: Task) -> Observation:
        """Begin an episode of the task's part."""
        name, *payload = task.payload
        self._now = self._worlds[name]
        self._now.seed = self.seed
        own = Task(task.id.removeprefix(f"{name}/"), task.split, tuple(payload))
        return self._now.start(own)

    def step(self, action: str) -> Observation:
        """Play one turn of the part."""
        self._now.is_cut = self.is_cut
        return self._now.step(action)

    @property
    def success(self) -> bool:
        """Whether the part's episode ended with its goal reached."""
        return self._now.success

    @property
    def violations(self) -> int:
        """How often the part's episode has broken a rule."""
        return self._now.violations

    def expert(self) -> Move:
        """The part's expert."""
        return self._now.expert()

    def greedy(self, draw: random.Random) -> str:
        """The part's simple player."""
        return self._now.greedy(draw)

    def legal(self) -> list[str]:
        """Actions that have an effect in the part."""
        return self._now.legal()

    def actions(self) -> list[str]:
        """Well-formed actions of the part."""
        return self._now.actions()

    def group(self, task: Task) -> str:
        """The part that a task belongs to."""
        return task.payload[0]

    def groups(self) -> list[str]:
        """The parts."""
        return sorted(self._worlds)

    def close(self) -> None:
        """Close the parts."""
        for world in self._worlds.values():
            world.close()
