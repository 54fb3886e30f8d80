"""A world that is played on an AgentGym server: the server has the rules, we have the protocol."""

from __future__ import annotations

import re
import weakref
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import ClassVar

from hansa.api.task_kinds import LEAST_TASKS
from hansa_worlds.agentgym.answers import StepResult
from hansa_worlds.agentgym.dialects import DIALECTS, Dialect
from hansa_worlds.agentgym.rules import BRIEFS, RULES
from hansa_worlds.agentgym.server import AgentGymAddress, SessionHolder, server_at
from hansa_worlds.base import SPLITS, Observation, Split, Task, TaskList, World, share
from hansa_worlds.errors import NoPlayer, OptionError, WorldDown
from hansa_worlds.options import Options
from hansa_worlds.remote.url import check_url

MOST_TASKS = 1_000_000
_PARTS = 8
"""Kinds that the tasks of a split are shared out to, where there are enough."""
CHECK_ACTIONS = "check available actions"
"""BabyAI's question, which is listed and moves nothing."""


class AgentGym(World):
    """Any of AgentGym's environments; `environment` names the server's dialect.

    A world keeps its session from episode to episode until it is closed. The session of a world
    that is gone, or that the server cannot close, goes to the next world of the process.
    Equal tasks give equal episodes only as far as the server does so.
    """

    name: ClassVar[str] = "agentgym"
    waits: ClassVar[bool] = True

    def __init__(self, options: Mapping[str, object]) -> None:
        first = Options(options)
        self.environment = first.choice("environment", "textcraft", sorted(DIALECTS))
        first.check()
        self.dialect = DIALECTS[self.environment]
        self.max_turns = self.dialect.max_turns
        self.rules, self.brief = RULES[self.dialect.rules], BRIEFS[self.dialect.rules]
        read = self._read(options)
        read.choice("environment", self.environment, sorted(DIALECTS))
        ranges = _read_ranges(read, self.dialect)
        self._least = read.number("success", self.dialect.success, 0.0, 1.0)
        address = _read_address(read, self.environment)
        read.finish()
        self._numbers = _split(ranges, options, self.environment)
        # AgentGym's own settings have the dialect's prefix in the URL.
        url = check_url(address.url).removesuffix(self.dialect.prefix)
        self._server = server_at(replace(address, url=url))
        self._cuts = re.compile(self.dialect.cuts)
        self._holder = SessionHolder()
        self._moves: list[str] = []
        weakref.finalize(self, self._server.release, self._holder).atexit = False

    def tasks(self, split: Split) -> Sequence[Task]:
        """Task numbers of the server, named as in AgentGym's own data: `webshop_6`."""
        numbers = self._numbers[split]
        return TaskList(len(numbers), lambda index: self._task(split, numbers[index]))

    def _task(self, split: Split, number: int) -> Task:
        return Task(f"{self.environment}_{number}", split, (str(number),))

    def group(self, task: Task) -> str:
        """Which part of its split: a server tells of its tasks nothing but their order."""
        numbers = self._numbers[task.split]
        parts = max(1, min(_PARTS, len(self._numbers["train"]) // LEAST_TASKS))
        place = bisect_left(numbers, int(task.payload[0]))
        return f"part {place * parts // len(numbers) + 1} of {parts}"

    def _begin(self, task: Task) -> str:
        first = self._server.begin(self._holder, int(task.payload[0]))
        self._moves = []
        words = self._holder.session.words if self._holder.session else ()
        self._keep_moves(first)
        return f"Words: {' '.join(words)}\n{first.text}" if words else first.text

    def _act(self, action: str) -> Observation:
        encodable = action.encode("utf-8", "replace").decode("utf-8")
        sent = " ".join(self._cuts.sub("", encodable).split())
        try:
            answer = self._server.act(self._holder, sent)
        except WorldDown:
            self._done = True
            raise
        self._keep_moves(answer)
        return Observation(answer.text, answer.reward, answer.done)

    def _keep_moves(self, answer: StepResult) -> None:
        """Keep the listed actions; an answer that lists none changes nothing."""
        self._moves = answer.moves or self._moves

    def _is_success(self, last: Observation) -> bool:
        return last.reward > 0 and last.reward >= self._least

    def legal(self) -> list[str]:
        """What the server lists, where it lists anything."""
        session = self._holder.session
        moves = self.dialect.moves or (session.words if session else ()) or self._moves
        legal = [move for move in moves if move != CHECK_ACTIONS]
        if not legal:
            raise NoPlayer(f"an AgentGym server for {self.environment} does not list its actions")
        return legal

    def snapshot(self) -> object:
        """There is none: the episode is on the server."""
        raise NoPlayer("an episode on an AgentGym server cannot be kept")

    def restore(self, snapshot: object) -> None:
        """There is no snapshot to go on from."""
        raise NoPlayer("an episode on an AgentGym server cannot be gone back to")

    def close(self) -> None:
        """Close the session, or let another world of this process have it."""
        self._server.leave(self._holder)


def _read_address(read: Options, environment: str) -> AgentGymAddress:
    return AgentGymAddress(
        url=read.text("url", "http://127.0.0.1:36001"),
        environment=environment,
        timeout_seconds=read.number("timeout_seconds", 60.0, 0.05, 3600.0),
        start_timeout_seconds=read.number("start_timeout_seconds", 120.0, 0.0, 3600.0),
        retries=read.integer("retries", 3, 0, 10),
        sessions=read.integer("sessions", 1024, 1, 100_000),
    )


def _read_ranges(read: Options, dialect: Dialect) -> dict[str, range]:
    """The range of all tasks, and those of the splits."""
    known = dialect.splits or {}
    ranges = {"tasks": _range(read, "tasks", dialect.tasks)}
    for split in SPLITS:
        ranges[split] = _range(read, split, known.get(split, (0, 1)))
    return ranges


def _split(
    ranges: Mapping[str, range], options: Mapping[str, object], environment: str
) -> dict[Split, Sequence[int]]:
    """The three ranges that were given, or the server's tasks shared out."""
    everything, known = ranges["tasks"], DIALECTS[environment].splits
    given = [split for split in SPLITS if split in options]
    if given and "tasks" in options:
        raise OptionError(
            f"options.tasks: got {options['tasks']!r} beside {given[0]}, expected one"
        )
    if given and len(given) < len(SPLITS) and not known:
        absent = next(split for split in SPLITS if split not in given)
        raise OptionError(f"options.{absent}: got nothing, expected a range, as {given[0]} has one")
    if given or (known and "tasks" not in options):
        return _check_disjoint({split: ranges[split] for split in SPLITS})
    if len(everything) < len(SPLITS):
        raise OptionError(f"options.tasks: got {len(everything)}, expected at least {len(SPLITS)}")
    return {split: _shared(environment, everything, split) for split in SPLITS}


def _range(read: Options, name: str, default: tuple[int, int]) -> range:
    ends = read.integers(name, default, 0, MOST_TASKS)
    if len(ends) != 2 or ends[0] >= ends[1]:
        read.refuse(name, str(list(ends)), "the first task and the one after the last")
        return range(*default)
    return range(*ends)


def _check_disjoint(given: Mapping[Split, range]) -> dict[Split, Sequence[int]]:
    for split, numbers in given.items():
        for other, theirs in given.items():
            if split != other and max(numbers[0], theirs[0]) <= min(numbers[-1], theirs[-1]):
                raise OptionError(
                    f"options.{split}: got {[numbers[0], numbers[-1] + 1]}, expected a range apart"
                    f" from options.{other} ({[theirs[0], theirs[-1] + 1]})"
                )
    return dict(given)


@lru_cache(maxsize=64)
def _shared(environment: str, numbers: range, split: Split) -> tuple[int, ...]:
    chosen = share([str(number) for number in numbers], split, "agentgym", environment)
    return tuple(sorted(map(int, chosen)))
