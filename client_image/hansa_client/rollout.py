"""Playing episodes in batches: worlds speak, the model answers, until all are done.

Rows of a batch take their turns together; finished episodes leave it at the turn's end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from hansa_client import seeds
from hansa_client.trajectory import Episode, Turn
from hansa_client.worlds import Task, World

if TYPE_CHECKING:
    from hansa_client.decode import Decoder
    from hansa_client.model import Base

MAX_NEW_TOKENS = 64
"""Tokens of one action at most; longer ones are cut, and the world judges what is there."""

MAX_LENGTH = 4096
"""Tokens of an episode where no manifest says otherwise."""


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
    """Tokens of one action at most."""


@dataclass(frozen=True)
class Played:
    """What came of it."""

    episodes: list[Episode]
    """In the order of the jobs."""
    generated: int
    """Tokens that the model wrote."""

    @property
    def successes(self) -> int:
        """Episodes that reached their goal."""
        return sum(episode.success for episode in self.episodes)


Progress = Callable[[int, int], None]
"""Told the episodes done so far and the successes among them."""


def play(
    base: Base,
    make_world: Callable[[], World],
    jobs: Sequence[Job],
    how: Play,
    progress: Progress = lambda done, successes: None,
) -> Played:
    """Play all jobs; episodes come back in the jobs' order, whatever the batches were."""
    import torch

    episodes: list[Episode] = []
    generated = 0
    with torch.inference_mode():
        for begin in range(0, len(jobs), how.batch_episodes):
            batch = jobs[begin : begin + how.batch_episodes]
            seats = [_Seat(make_world(), job, how) for job in batch]
            _play_batch(base, seats, how, _onwards(progress, episodes))
            episodes += [seat.episode() for seat in seats]
            generated += sum(seat.written for seat in seats)
    return Played(episodes, generated)


def _onwards(progress: Progress, before: Sequence[Episode]) -> Progress:
    """The progress of a batch, counted on from the episodes before it."""
    played, successes = len(before), sum(episode.success for episode in before)
    return lambda done, successful: progress(played + done, successes + successful)


class _Seat:
    """One row of a batch: its world, what was said, and what the model has yet to read."""

    def __init__(self, world: World, job: Job, how: Play) -> None:
        self.world = world
        self.job = job
        self.how = how
        self.done = False
        self.written = 0
        self.unread: list[int] = []
        self.heard = ""
        self._random = seeds.generator(job.seed)
        self._reward = 0.0
        self._length = 0
        self._turns: list[Turn] = []

    def start(self) -> None:
        self.heard = self.world.start(self.job.task).text

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

    def draws(self) -> list[float]:
        """Random numbers of the next action; as many for every action, so none shifts the next."""
        return [float(x) for x in self._random.random(self.how.max_new_tokens)]

    def act(self, tokens: list[int], text: str) -> None:
        """Carry out what the model wrote."""
        self._turns.append(Turn(role="agent", text=text, tokens=tokens))
        self._length += len(tokens)
        self.written += len(tokens)
        self.unread = tokens[-1:]
        seen = self.world.step(text)
        self.heard, self._reward = seen.text, seen.reward
        if seen.done:
            self._stop()

    def _stop(self) -> None:
        self.done = True
        self._turns.append(Turn(role="user", text=self.heard))

    def episode(self) -> Episode:
        return Episode(
            task=self.job.task.id,
            sample=self.job.sample,
            round=self.how.round,
            source=self.how.source,
            seed=self.job.seed,
            success=self.world.success,
            reward=float(self._reward),
            turns=self._turns,
        )


def _play_batch(base: Base, seats: list[_Seat], how: Play, progress: Progress) -> None:
    from hansa_client.decode import Decoder

    for seat in seats:
        seat.start()
    _listen(base, seats, first=True)
    playing = [seat for seat in seats if not seat.done]
    decoder = Decoder(base, len(playing))
    while playing:
        _take_turn(base, decoder, playing, how)
        going = [seat for seat in playing if not seat.done]
        _listen(base, going, first=False)
        left = [index for index, seat in enumerate(playing) if not seat.done]
        playing = [playing[index] for index in left]
        if playing:
            decoder.keep(left)
        progress(len(seats) - len(playing), sum(seat.world.success for seat in seats))


def _take_turn(base: Base, decoder: Decoder, seats: list[_Seat], how: Play) -> None:
    import numpy as np

    actions = decoder.write(
        [seat.unread for seat in seats],
        [seat.budget() for seat in seats],
        np.array([seat.draws() for seat in seats]),
        how.temperature,
    )
    for seat, tokens, text in zip(seats, actions, base.chat.texts(actions), strict=True):
        seat.act(tokens, text)


def _listen(base: Base, seats: list[_Seat], *, first: bool) -> None:
    heard = base.chat.observations([seat.heard for seat in seats], first=first)
    for seat, tokens in zip(seats, heard, strict=True):
        # An action that was cut has no end: the model reads one, but is not trained on it.
        is_cut = not first and seat.unread[-1] not in base.chat.stops
        seat.hear([base.chat.end, *tokens] if is_cut else tokens)
