"""What every world promises: tasks in three disjoint splits, and episodes of text in, text out.

A world is written by overriding `_begin` and `_act`; counting turns, cutting the action out of the
agent's text and refusing what is no action happen here once, so that no world can forget them.
Nothing here or in a world may import torch: millions of episodes are played to make `builtin:tiny`.
"""

from __future__ import annotations

import random
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args, overload

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)

LONGEST_ACTION = 1_000
"""Characters of an action that are looked at; more is no action of any world, only work."""

_ACTION = re.compile(r"Action:\s*(.*?)(?=\n|$)")


class WorldError(Exception):
    """A world cannot be made or played as asked; the message says what fits."""


class OptionError(WorldError):
    """An option is unknown or out of bounds: 'options.size: got 99, expected 4 to 12'."""


@dataclass(frozen=True)
class Task:
    """One thing to do; two tasks of a world with the same payload are the same episode."""

    id: str
    """Unique within the world and its options, stable across machines."""
    split: Split
    payload: tuple[str, ...]
    """What the world needs to set the task up; strings, so that seeds never depend on hash()."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What the agent reads next, and what its last action earned."""

    text: str
    reward: float = 0.0
    done: bool = False


class TaskList(Sequence[Task]):
    """Tasks made when asked for, since a split may hold many thousands."""

    def __init__(self, size: int, build: Callable[[int], Task]) -> None:
        self._size = size
        self._build = build

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> Task: ...
    @overload
    def __getitem__(self, index: slice) -> list[Task]: ...
    def __getitem__(self, index: int | slice) -> Task | list[Task]:
        if isinstance(index, slice):
            return [self._build(i) for i in range(*index.indices(self._size))]
        if index < 0:
            index += self._size
        if not 0 <= index < self._size:
            raise IndexError(f"task {index} of {self._size}")
        return self._build(index)


class World(ABC):
    """One episode at a time: `start(task)`, then `step(text)` until done.

    Making one is cheap (shared data is cached by module); `start` forgets everything before it.
    """

    name: ClassVar[str]
    options: Mapping[str, object]
    max_turns: int
    """Actions an episode may hold; the last one ends it whatever it was."""

    _turns: int = 0
    _done: bool = True
    _success: bool = False

    @abstractmethod
    def __init__(self, options: Mapping[str, object]) -> None:
        """Check the options at the door and raise OptionError; the rest trusts them."""

    @abstractmethod
    def tasks(self, split: Split) -> Sequence[Task]:
        """The tasks of a split in a fixed order; no task is in two splits."""

    @abstractmethod
    def fresh(self, seed: int) -> Task:
        """A task for pre-training, the same for the same seed, in no validation or test split."""

    @abstractmethod
    def expert(self) -> str:
        """The scripted expert's next action in the present state."""

    @abstractmethod
    def legal(self) -> list[str]:
        """The actions a random legal player chooses from; never empty before the end."""

    @abstractmethod
    def _begin(self, task: Task) -> str:
        """Set the episode up and return its first text."""

    @abstractmethod
    def _act(self, action: str) -> Observation:
        """Carry out one action (one line, any text); `done` with reward > 0 is success."""

    @property
    def success(self) -> bool:
        """Whether the episode ended with its goal reached."""
        return self._success

    def start(self, task: Task) -> Observation:
        """Begin an episode; the text holds a brief instruction and the first observation."""
        self._turns = 0
        self._done = False
        self._success = False
        return Observation(self._begin(task))

    def step(self, action: str) -> Observation:
        """Play one turn; never raises, whatever the text."""
        if self._done:
            return Observation("The episode is over.", 0.0, True)
        self._turns += 1
        parsed = parse_action(action)
        seen = Observation("Give exactly one action.") if parsed is None else self._act(parsed)
        if seen.done:
            self._done = True
            self._success = self._is_success(seen)
        elif self._turns >= self.max_turns:
            self._done = True
            return Observation(seen.text, seen.reward, True)
        return seen

    def _is_success(self, last: Observation) -> bool:
        return last.reward > 0


def parse_action(text: str) -> str | None:
    """The action inside the agent's text, or None when it holds more than one.

    AgentGym's agents write `Thought: ... Action: ...`; ours may write the bare action.
    """
    if "Action:" in text:
        found = _ACTION.findall(text)
        if len(found) != 1:
            return None
        text = found[0]
    return " ".join(text[:LONGEST_ACTION].split())


def rng(*parts: object) -> random.Random:
    """A generator seeded by text: equal on every machine, unlike anything that meets hash()."""
    return random.Random("/".join(map(str, parts)))


class Options:
    """Reads `options` entry by entry and names what is left over."""

    def __init__(self, given: Mapping[str, object]) -> None:
        self._left = dict(given)
        self._known: list[str] = []

    def integer(self, name: str, default: int, low: int, high: int) -> int:
        """An integer from low to high."""
        value = self._take(name, default)
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # JSON has one kind of number
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise OptionError(f"options.{name}: got {value!r}, expected {low} to {high}")
        return value

    def boolean(self, name: str, default: bool) -> bool:
        """True or false."""
        value = self._take(name, default)
        if not isinstance(value, bool):
            raise OptionError(f"options.{name}: got {value!r}, expected true or false")
        return value

    def choice(self, name: str, default: str, choices: Sequence[str]) -> str:
        """One of a few words."""
        value = self._take(name, default)
        if not isinstance(value, str) or value not in choices:
            raise OptionError(f"options.{name}: got {value!r}, expected {' or '.join(choices)}")
        return value

    def words(self, name: str, default: Sequence[str], length: int, least: int) -> tuple[str, ...]:
        """A list of distinct lower-case words of one length."""
        value = self._take(name, default)
        fits = f"a list of at least {least} distinct words of {length} letters a to z"
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise OptionError(f"options.{name}: got {value!r}, expected {fits}")
        for word in value:
            if not isinstance(word, str) or not re.fullmatch(f"[a-z]{{{length}}}", word):
                raise OptionError(f"options.{name}: got {word!r} in it, expected {fits}")
        if len(set(value)) != len(value) or len(value) < least:
            raise OptionError(
                f"options.{name}: got {len(set(value))} distinct of {len(value)}, expected {fits}"
            )
        return tuple(value)

    def finish(self) -> None:
        """Refuse what nobody asked for: a mistyped option must not pass in silence."""
        for name in sorted(self._left, key=str):
            known = ", ".join(sorted(self._known)) or "no options"
            raise OptionError(f"options.{name}: unknown, expected {known}")

    def _take(self, name: str, default: object) -> object:
        self._known.append(name)
        return self._left.pop(name, default)


def share(items: Sequence[str], split: Split, *seed: object) -> list[str]:
    """The part of `items` that belongs to a split: 60 % train, 15 % validation, 25 % test."""
    order = list(items)
    rng("split", *seed).shuffle(order)
    test = max(1, round(len(order) * 0.25))
    validation = max(1, round(len(order) * 0.15))
    parts = {
        "test": order[:test],
        "validation": order[test : test + validation],
        "train": order[test + validation :],
    }
    return sorted(parts[split])
