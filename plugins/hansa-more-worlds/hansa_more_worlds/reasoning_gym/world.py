"""World `reasoning-gym`: a question, one answer, and the package's own score for it.

    options:
      families: [chain_sum, leg_counting]
      config: {chain_sum: {max_terms: 3}}

A task is a family and a number, from which the package makes the question. Needs the extra
`hansa-more-worlds[reasoning-gym]`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from hansa_more_worlds import packages
from hansa_more_worlds.reasoning_gym import families
from hansa_more_worlds.reasoning_gym.families import MODULE, NAME
from hansa_worlds.base import Move, Observation, Split, Task, TaskList, World
from hansa_worlds.options import Options
from hansa_worlds.seeds import check_disjoint, read_seeds

LONGEST_TEXT = 16_000
"""Characters of a question that are kept."""
SEEDS: dict[Split, tuple[int, int]] = {
    "test": (0, 500),
    "validation": (500, 1_000),
    "train": (1_000, 5_000),
}
"""Numbers of each split, for every family: the first, and the one after the last."""
FAMILIES = ("chain_sum", "gcd", "leg_counting", "letter_counting", "number_sorting")

RULES = """\
You are asked a question and answer it once. Write the answer in the form that the question asks
for, on one line; where it has several lines, write \\n between them.
Answer as "Thought: <why>", then a line "Action: <the answer>"."""


class ReasoningGym(World):
    """Questions of package reasoning-gym, answered once; the package scores the answer.

    A family with few questions may ask the same one under two numbers.
    """

    name = NAME
    rules = RULES
    brief = "Answer the question."
    max_turns = 1

    def __init__(self, options: Mapping[str, object]) -> None:
        read = self._read(options)
        self._families = _names(read)
        self._config = _settings(read, self._families)
        self._least = read.number("success", 1.0, 0.01, 1.0)
        self._seeds = read_seeds(read, SEEDS)
        read.finish()
        check_disjoint(self._seeds)
        packages.require(NAME, MODULE)
        _check(self._families, json.dumps(self._config, sort_keys=True, default=repr))
        self._family = ""
        self._maker: Any = None
        self._entry: Mapping[str, Any] = {}

    def tasks(self, split: Split) -> Sequence[Task]:
        """The numbers of a split, each for every family in turn."""
        names, seeds = self._families, self._seeds[split]

        def build(index: int) -> Task:
            family, number = names[index % len(names)], seeds[index // len(names)]
            return Task(f"{family}-{number}", split, (family, str(number)))

        return TaskList(len(names) * len(seeds), build)

    def _begin(self, task: Task) -> str:
        self._family, number = task.payload
        self._maker = families.dataset(
            self._family, self._config.get(self._family, {}), int(number)
        )
        self._entry = self._maker[0]
        return str(self._entry["question"])[:LONGEST_TEXT]

    def _act(self, action: str) -> Observation:
        answer = action.replace("\\n", "\n").strip()
        reward = families.score(self._maker, self._family, answer, self._entry)
        return Observation("Right." if reward >= self._least else "Wrong.", reward, True)

    def _is_success(self, last: Observation) -> bool:
        return last.reward >= self._least

    def expert(self) -> Move:
        """The answer that the package knows."""
        return Move("I know the answer.", self._known())

    def _known(self) -> str:
        return " ".join(str(self._entry["answer"]).strip().replace("\n", "\\n").split())

    def solvable(self, task: Task) -> bool:
        """Whether the known answer, on one line and not too long, counts as right."""
        other = type(self)(self.options)
        other.start(task)
        other.step(other.expert().text)
        return other.success

    def group(self, task: Task) -> str:
        """Its family."""
        return task.payload[0]

    def groups(self) -> list[str]:
        """The families."""
        return sorted(self._families)


def _names(read: Options) -> tuple[str, ...]:
    value = read.anything("families", FAMILIES)
    fits = "a list of distinct names of families, such as [chain_sum, gcd]"
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        read.refuse("families", repr(value), fits)
        return FAMILIES
    names = [name for name in value if isinstance(name, str)]
    if len(names) != len(value) or len(set(names)) != len(names):
        read.refuse("families", repr(value), fits)
        return FAMILIES
    return tuple(names)


def _settings(read: Options, names: Sequence[str]) -> dict[str, dict[str, object]]:
    value = read.anything("config", {})
    fits = "a mapping of families in options.families to their settings"
    if not isinstance(value, Mapping):
        read.refuse("config", repr(value), fits)
        return {}
    for family, settings in value.items():
        if family not in names:
            read.refuse("config", f"{family!r} in it", fits)
            return {}
        if not isinstance(settings, Mapping) or not all(isinstance(key, str) for key in settings):
            read.refuse(f"config.{family}", repr(settings), "a mapping of its settings")
            return {}
    return {family: dict(settings) for family, settings in value.items()}


@lru_cache(maxsize=16)
def _check(names: tuple[str, ...], config: str) -> None:
    """Ask the package once; a world is made for every episode."""
    settings = json.loads(config)
    for family in names:
        families.check(family, settings.get(family, {}))
