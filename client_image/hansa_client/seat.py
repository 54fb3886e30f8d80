"""Seats: the rows of a batch, each a world in an episode; what a world raises stays in its seat.

Worlds that wait for something outside take their steps side by side; all others one after another.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from hansa_client import faults, seeds
from hansa_client.faults import Fault
from hansa_client.trajectory import Episode, Turn
from hansa_client.worlds import Observation, OptionError, Task, World

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_NEW_TOKENS = 256
"""Tokens of one turn where no manifest says otherwise."""
MAX_BROKEN = 0.1
"""Share of broken episodes where no manifest says otherwise."""
MOST_THREADS = 64
"""Worlds that wait at the same time; a server outside is not meant to be flooded."""


@dataclass(frozen=True)
class Job:
    """One episode to play."""

    task: Task
    """What to play."""
    sample: int
    """Which of several episodes of the task."""
    seed: int
    """Seed of its tokens."""


@dataclass(frozen=True, kw_only=True)
class Play:
    """How to play."""

    temperature: float
    """Sampling temperature; 0 is greedy."""
    max_length: int
    """Tokens of an episode at most."""
    batch_episodes: int
    """Episodes played together."""
    round: int
    """Round the episodes belong to."""
    source: Literal["exploration", "evaluation"]
    """Why they are played."""
    max_new_tokens: int = MAX_NEW_TOKENS
    """Tokens of one turn at most; a longer one is cut, and the world judges what is there."""
    max_broken: float = MAX_BROKEN
    """Share of the episodes in which the world may fail."""


class Seat:
    """One row of a batch: its world, what was said, and what the model has yet to read."""

    def __init__(self, world: World, job: Job, how: Play) -> None:
        self.world = world
        self.job = job
        self.how = how
        self.done = False
        self.success = False
        self.fault: Fault | None = None
        """Why the episode is dropped."""
        self.written = 0
        self.unread: list[int] = []
        self.heard = ""
        self._random = seeds.generator(job.seed)
        self._reward = 0.0
        self._length = 0
        self._turns: list[Turn] = []

    def start(self) -> None:
        """Begin the episode."""
        self._take(lambda: self.world.start(self.job.task))

    def hear(self, tokens: list[int]) -> None:
        """Take in the last observation, unless the episode would grow too long to answer it."""
        if self._length + len(tokens) >= self.how.max_length:
            self._stop()
            return
        self._turns.append(Turn(role="user", text=self.heard, tokens=tokens))
        self._length += len(tokens)
        self.unread += tokens

    def budget(self) -> int:
        """Tokens the next action may have."""
        return min(self.how.max_new_tokens, self.how.max_length - self._length)

    def draws(self) -> NDArray[np.float64]:
        """Random numbers of the next action; as many for every action, so none shifts the next."""
        return self._random.random(self.how.max_new_tokens)

    def say(self, tokens: list[int], text: str) -> None:
        """Note what the model wrote; `act` carries it out."""
        self._turns.append(Turn(role="agent", text=text, tokens=tokens))
        self._length += len(tokens)
        self.written += len(tokens)
        self.unread = tokens[-1:]

    def act(self) -> None:
        """Carry out what was said last."""
        text = self._turns[-1].text
        self._take(lambda: self.world.step(text))

    def close(self) -> None:
        """Give back what the world holds."""
        faults.close(self.world)

    def episode(self) -> Episode:
        """The episode as played so far."""
        return Episode(
            task=self.job.task.id,
            sample=self.job.sample,
            round=self.how.round,
            source=self.how.source,
            seed=self.job.seed,
            success=self.success,
            reward=self._reward,
            turns=self._turns,
        )

    def _take(self, call: Callable[[], Observation]) -> None:
        """Let the world answer; the episode breaks off when it does not."""
        try:
            seen = faults.checked(call(), self.world)
        except (MemoryError, OptionError):
            raise  # the machine's fault or the manifest's, and the same for every episode
        except (Exception, SystemExit) as error:  # a world is anybody's code
            self.fault = faults.of(error, self.world)
            self.done = True
            return
        self.heard, self._reward, self.success = seen.text, seen.reward, seen.success
        if seen.done:
            self._stop()

    def _stop(self) -> None:
        self.done = True
        self._turns.append(Turn(role="user", text=self.heard))


Each = Callable[[Callable[[Seat], None], Sequence[Seat]], None]
"""Does something with each seat, side by side where worlds wait."""


@contextmanager
def seated(seats: Sequence[Seat]) -> Iterator[Each]:
    """How to move these seats; all their worlds are closed at the end, whatever happened."""
    with contextlib.ExitStack() as stack:
        each: Each = _one_by_one
        if len(seats) > 1 and any(seat.world.waits for seat in seats):
            threads = min(len(seats), MOST_THREADS)
            pool = stack.enter_context(ThreadPoolExecutor(threads, "world"))
            each = _side_by_side(pool)
        try:
            yield each
        finally:
            each(Seat.close, seats)


def _one_by_one(do: Callable[[Seat], None], seats: Sequence[Seat]) -> None:
    for seat in seats:
        do(seat)


def _side_by_side(pool: ThreadPoolExecutor) -> Each:
    def each(do: Callable[[Seat], None], seats: Sequence[Seat]) -> None:
        list(pool.map(do, seats))  # the list raises what a thread raised

    return each
