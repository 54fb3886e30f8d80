"""What every world promises: tasks in three disjoint splits, and episodes of text in, text out.

A world overrides `tasks`, `_begin` and `_act`. This base counts turns, parses the action out of the
agent's text and refuses text without one, so that no world forgets to.
Nothing here or in a world may import torch: millions of episodes are played to make `builtin:tiny`.
"""

import random
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, get_args, overload

from hansa_worlds.errors import NoPlayer
from hansa_worlds.options import Options

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)

LONGEST_ACTION = 1_000
"""Characters of an action that are read; no action of any world is longer."""

GENERIC_RULES = """\
You reach a goal in a world of text. Each turn you read what happened.
Answer each observation as "Thought: <why>", then a line "Action: <one action>"."""
"""For a world of which nothing else is known."""

KINDS_FROM = 512
"""Training tasks whose kinds are listed, evenly spread: the same in every round."""

_ACTION = re.compile(r"Action:\s*(.*?)(?=\n|$)")


@dataclass(frozen=True)
class Task:
    """One thing to do; two tasks of a world with the same payload are the same episode."""

    id: str
    """Unique within the world and its options, stable across machines."""
    split: Split
    payload: tuple[str, ...]
    """What the world needs to set the task up; strings, so that seeds never depend on hash()."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A chat that the agent reads instead of plain text: messages as OpenAI's API has them."""

    messages: tuple[Mapping[str, object], ...]
    """All of the chat, to its last message; the agent writes the next."""
    known: int = 0
    """Messages that the agent has read or written already; 0: it reads the chat from the start."""
    tools: tuple[Mapping[str, object], ...] = ()
    """Tools that it may call."""
    stop: tuple[str, ...] = ()
    """Texts that end this turn, beside those that end every turn."""
    max_tokens: int | None = None
    """Most tokens of this turn, where that is less than the limit of every turn."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What the agent reads next, and what its last action earned."""

    text: str
    reward: float = 0.0
    done: bool = False
    prompt: Prompt | None = None
    """What the agent reads where the world speaks in messages; the text is for people then."""
    called: tuple[Mapping[str, object], ...] = ()
    """Tools that the last action called, as OpenAI's `tool_calls`."""


class TaskList(Sequence[Task]):
    """Tasks that are built on access, since a split may hold many thousands."""

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
        chosen = range(self._size)[index]
        return self._build(chosen) if isinstance(chosen, int) else list(map(self._build, chosen))


class Move(NamedTuple):
    """What an expert does next, and why: a ReAct turn."""

    thought: str
    """The reason in one sentence, from what the agent can have read; "" for none."""
    action: str
    """One line, as `step` takes it."""

    @property
    def text(self) -> str:
        """The turn as AgentGym's agents write it."""
        return f"Thought: {self.thought}\n\nAction: {self.action}" if self.thought else self.action


class World(ABC):
    """One episode at a time: `start(task)`, then `step(text)` until done.

    Making one is cheap (shared data is cached by module); `start` forgets everything before it.
    A world must define `tasks`, `_begin` and `_act`; every other method has a default.
    """

    name: ClassVar[str]
    rules: str = ""
    """Instructions before the first observation: the goal, and how actions are written."""
    brief: str = ""
    """The rules in one line, for a small model that was trained on the world."""
    max_turns: int = 20
    """Actions of an episode at most; the last one ends it in any case."""
    shows_state: ClassVar[bool] = False
    """Whether equal observations mean equal states: nothing was gained between two such."""
    waits: ClassVar[bool] = False
    """Whether a step waits for something outside, so that a batch steps in parallel."""

    seed: int = 0
    """Seed of the episode that starts next, for a world with random numbers of its own."""
    is_cut: bool = False
    """Whether the next text for `step` was cut at the token limit."""
    has_rules: bool = False
    """Whether an episode can break a rule; violations are counted apart from the reward."""

    options: Mapping[str, object]
    prompt: str = "full"
    """Which introduction an episode begins with: the rules (full), the brief, or none."""

    _least: float = 0.0
    """Last reward from which an ended episode is a success; 0: any reward above 0."""
    _turns: int = 0
    _done: bool = True
    _success: bool = False
    _violations: int = 0

    def __init__(self, options: Mapping[str, object]) -> None:
        """Check the options and raise OptionError; all other methods trust them."""
        self._read(options).finish()

    def _read(self, options: Mapping[str, object]) -> Options:
        """Read the options that every world has; call `finish` after reading your own."""
        self.options = dict(options)
        read = self._reading = Options(options)
        self.max_turns = read.integer("max_turns", self.max_turns, 1, 1000)
        self.prompt = read.choice("prompt", "full", ("full", "brief", "none"))
        return read

    def check_options(self) -> None:
        """Raise OptionError for a world that read its options but did not call `finish`."""
        if reading := vars(self).pop("_reading", None):
            reading.check()

    @abstractmethod
    def tasks(self, split: Split) -> Sequence[Task]:
        """The tasks of a split in a fixed order; no task is in two splits."""

    @abstractmethod
    def _begin(self, task: Task) -> str:
        """Set the episode up and return its first observation, without the rules."""

    @abstractmethod
    def _act(self, action: str) -> Observation:
        """Carry out one action (one line, any text); `done` with reward > 0 is success."""

    def fresh(self, seed: int) -> Task:
        """A task for pre-training, the same for the same seed, in no validation or test split."""
        train = self.tasks("train")
        return train[rng(self.name, "fresh", seed).randrange(len(train))]

    def expert(self) -> Move:
        """The scripted expert's next move in the current state, which it leaves unchanged."""
        raise NoPlayer(f"world {self.name!r} has no expert")

    def greedy(self, draw: random.Random) -> str:
        """A simple player's next action: better than chance, worse than the expert."""
        raise NoPlayer(f"world {self.name!r} has no greedy player")

    def legal(self) -> list[str]:
        """Actions that have an effect in the current state; never empty before the end."""
        raise NoPlayer(f"world {self.name!r} does not list its actions")

    def actions(self) -> list[str]:
        """Well-formed actions, with or without an effect, for the random player."""
        return self.legal()

    def solvable(self, task: Task) -> bool:
        """Whether the expert is expected to succeed; false for a task known to be too long."""
        return True

    def group(self, task: Task) -> str:
        """The task's kind, such as its level, for scores by kind; "" where there is only one.

        A world has 3 to 12 kinds at best, each of tasks that are about as hard. It starts no
        episode. The name leaves the silo: it must not identify a single task.
        """
        return ""

    def groups(self) -> list[str]:
        """All kinds, sorted: those of some training tasks, unless a world knows them at once."""
        train = self.tasks("train")
        step = max(1, len(train) // KINDS_FROM)
        return sorted({self.group(train[index]) for index in range(0, len(train), step)} - {""})

    def introduction(self) -> str:
        """The text before the first observation."""
        return {"full": self.rules, "brief": self.brief, "none": ""}[self.prompt]

    def close(self) -> None:  # noqa: B027
        """Release what an episode holds outside this process; `start` may still follow."""

    @property
    def success(self) -> bool:
        """Whether the episode ended with its goal reached."""
        return self._success

    @property
    def violations(self) -> int:
        """How often the episode has broken a rule so far."""
        return self._violations

    def start(self, task: Task) -> Observation:
        """Begin an episode; the text holds the rules and the first observation."""
        self._turns = 0
        self._done = True
        self._success = False
        self._violations = 0
        text = self._begin(task)
        self._done = False
        introduction = self.introduction()
        return Observation(f"{introduction}\n{text}" if introduction else text)

    def step(self, action: str) -> Observation:
        """Play one turn; no text makes it raise."""
        if self._done:
            return Observation("The episode is over.", 0.0, True)
        self._done = True  # an action that raises ends the episode
        self._turns += 1
        parsed = parse_action(action)
        answer = Observation("Give exactly one action.") if parsed is None else self._act(parsed)
        if answer.done:
            self._success = self._is_success(answer)
        elif self._turns >= self.max_turns:
            return Observation(answer.text, answer.reward, True)
        self._done = answer.done
        return answer

    def _is_success(self, last: Observation) -> bool:
        return last.reward > 0 and last.reward >= self._least


def parse_action(text: str) -> str | None:
    """The action inside the agent's text, or None when it holds more than one.

    AgentGym's agents write `Thought: ... Action: ...`; ours may write the bare action.
    """
    if "Action:" in text:
        actions = _ACTION.findall(text)
        if len(actions) != 1:
            return None
        text = actions[0]
    return " ".join(text[:LONGEST_ACTION].split())


def rng(*parts: object) -> random.Random:
    """A generator seeded by text: equal on every machine, unlike one seeded by hash()."""
    return random.Random("/".join(map(str, parts)))


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
