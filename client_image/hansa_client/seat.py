"""Seats: the rows of a batch, each a world in an episode; what a world raises stays in its seat.

Worlds that wait for something outside take their steps side by side; all others one after another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from hansa_client import faults, seeds
from hansa_client.faults import Fault
from hansa_client.trajectory import Episode, Turn
from hansa_client.worlds import Observation, OptionError, Task, World

if TYPE_CHECKING:
    from hansa_client.decode import Ask

Engine = Literal["auto", "torch", "vllm"]
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
    stop: Sequence[str] = ()
    """Texts that end a turn as soon as they are written."""
    engine: Engine = "auto"
    """What writes the turns."""


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
        self.too_long = 0
        """Tokens of a first observation that leaves no room to answer; 0: it does."""
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
            self.too_long = 0 if self._turns else len(tokens)
            self._stop()
            return
        self._turns.append(Turn(role="user", text=self.heard, tokens=tokens))
        self._length += len(tokens)
        self.unread += tokens

    def ask(self, row: int) -> Ask:
        """What is wanted of the model next.

        Every action draws as many random numbers, so that none shifts those of the next.
        """
        from hansa_client.decode import Ask

        return Ask(
            row=row,
            is_first=len(self._turns) == 1,
            tokens=self.unread,
            budget=min(self.how.max_new_tokens, self.how.max_length - self._length),
            uniforms=self._random.random(self.how.max_new_tokens),
            seed=seeds.derive(self.job.seed, self.job.task.id, len(self._turns), "turn"),
        )

    def say(self, tokens: list[int], text: str) -> None:
        """Note what the model wrote, up to a text that ends the turn; `act` carries it out."""
        for ending in self.how.stop:
            text = text.partition(ending)[0]
        self._turns.append(Turn(role="agent", text=text.strip(), tokens=tokens))
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


class Hall:
    """All seats that are taken; whatever happens, their worlds are closed at the end."""

    def __init__(self, make_world: Callable[[], World], how: Play, rows: int) -> None:
        self._make_world = make_world
        self._how = how
        self._threads = min(rows, MOST_THREADS)
        self._pool: ThreadPoolExecutor | None = None
        self._taken: list[Seat] = []

    def __enter__(self) -> Hall:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave(self._taken)
        if self._pool:
            self._pool.shutdown()

    @property
    def waits(self) -> bool:
        """Whether worlds wait for something outside, and better all at the same time."""
        return self._pool is not None

    def take(self, job: Job) -> Seat:
        """A seat for one more episode."""
        seat = Seat(self._make_world(), job, self._how)
        self._taken.append(seat)
        if seat.world.waits and self._threads > 1 and not self._pool:
            self._pool = ThreadPoolExecutor(self._threads, "world")
        return seat

    def leave(self, seats: Sequence[Seat]) -> None:
        """Close the worlds of episodes that are over."""
        left = [seat for seat in self._taken if seat not in seats]
        self.each(Seat.close, list(seats))
        self._taken = left

    def each(self, do: Callable[[Seat], None], seats: Sequence[Seat]) -> None:
        """Do something with each seat, side by side where worlds wait."""
        if self._pool and len(seats) > 1:
            list(self._pool.map(do, seats))  # the list raises what a thread raised
            return
        for seat in seats:
            do(seat)
