"""A world on an AgentGym server: the server has the rules, this module the protocol."""

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import ClassVar

from hansa.api.task_kinds import LEAST_TASKS
from hansa_worlds.agentgym.answers import StepResult
from hansa_worlds.agentgym.dialects import DIALECTS
from hansa_worlds.agentgym.rules import BRIEFS, RULES
from hansa_worlds.agentgym.server import AgentGymAddress, AgentGymServer, Holder
from hansa_worlds.base import SPLITS, Observation, Split, Task, share
from hansa_worlds.errors import NoPlayer, OptionError
from hansa_worlds.options import Options
from hansa_worlds.remote.server import RemoteWorld, get_server, read_address
from hansa_worlds.remote.wire import check_url
from hansa_worlds.seeds import check_disjoint, make_tasks, read_range, read_seeds

_PARTS = 8
"""Kinds that the tasks of a split are shared out to, where there are enough."""
CHECK_ACTIONS = "check available actions"
"""BabyAI's question, which is listed and moves nothing."""


class AgentGym(RemoteWorld):
    """Any of AgentGym's environments; `environment` names the server's dialect.

    Some servers cannot close a session: then another world of this process gets it.
    """

    name: ClassVar[str] = "agentgym"

    def __init__(self, options: Mapping[str, object]) -> None:
        first = Options(options)
        self.environment = first.choice("environment", "textcraft", sorted(DIALECTS))
        first.check()
        self.dialect = DIALECTS[self.environment]
        self.max_turns = self.dialect.max_turns
        rules = self.dialect.rules or self.environment
        self.rules, self.brief = RULES[rules], BRIEFS[rules]
        read = self._read(options)
        read.choice("environment", self.environment, sorted(DIALECTS))
        everything = read_range(read, "tasks", self.dialect.tasks, "task")
        given = read_seeds(read, self.dialect.splits or dict.fromkeys(SPLITS, (0, 1)), "task")
        self._least = read.number("success", self.dialect.success, 0.0, 1.0)
        address = read_address(read, "http://127.0.0.1:36001")
        address["sessions"] = read.integer("sessions", 1024, 1, 100_000)
        read.finish()
        self._numbers = _split_tasks(everything, given, options, self.environment)
        # AgentGym's own settings have the dialect's prefix in the URL.
        address["url"] = check_url(address["url"]).removesuffix(self.dialect.prefix)
        self._server: AgentGymServer = get_server(
            AgentGymServer, AgentGymAddress(environment=self.environment, **address)
        )
        self._cuts = re.compile(self.dialect.cuts)
        self._holder = Holder()
        self._moves: list[str] = []
        self._release_when_gone()

    def tasks(self, split: Split) -> Sequence[Task]:
        """Task numbers of the server, named as in AgentGym's own data: `webshop_6`."""
        return make_tasks(f"{self.environment}_", split, self._numbers[split])

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
        answer = self._server.act(self._holder, sent)
        self._keep_moves(answer)
        return Observation(answer.text, answer.reward, answer.done)

    def _keep_moves(self, answer: StepResult) -> None:
        """Keep the listed actions; an answer that lists none changes nothing."""
        self._moves = answer.moves or self._moves

    def legal(self) -> list[str]:
        """What the server lists, where it lists anything."""
        session = self._holder.session
        moves = self.dialect.moves or (session.words if session else ()) or self._moves
        legal = [move for move in moves if move != CHECK_ACTIONS]
        if not legal:
            raise NoPlayer(f"an AgentGym server for {self.environment} does not list its actions")
        return legal


def _split_tasks(
    everything: range,
    ranges: Mapping[Split, range],
    options: Mapping[str, object],
    environment: str,
) -> dict[Split, Sequence[int]]:
    """The three ranges that were given, or the server's tasks shared out."""
    known = DIALECTS[environment].splits
    given = [split for split in SPLITS if split in options]
    if given and "tasks" in options:
        raise OptionError(
            f"options.tasks: got {options['tasks']!r} beside {given[0]}, expected one"
        )
    if given and len(given) < len(SPLITS) and not known:
        absent = next(split for split in SPLITS if split not in given)
        raise OptionError(f"options.{absent}: got nothing, expected a range, as {given[0]} has one")
    if given or (known and "tasks" not in options):
        check_disjoint(ranges, "task")
        return dict(ranges)
    if len(everything) < len(SPLITS):
        raise OptionError(f"options.tasks: got {len(everything)}, expected at least {len(SPLITS)}")
    return {split: _share_out(environment, everything, split) for split in SPLITS}


@lru_cache(maxsize=64)
def _share_out(environment: str, numbers: range, split: Split) -> tuple[int, ...]:
    chosen = share([str(number) for number in numbers], split, "agentgym", environment)
    return tuple(sorted(map(int, chosen)))
