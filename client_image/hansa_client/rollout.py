"""Playing episodes in batches: worlds speak, the model answers, until all are done.

Rows of a batch take their turns together; finished episodes leave it at the turn's end. An episode
in which the world fails is dropped and counted, and the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hansa_client.faults import Fault, Tally
from hansa_client.seat import Each, Job, Play, Seat, seated
from hansa_client.trajectory import Episode
from hansa_client.worlds import World

if TYPE_CHECKING:
    from hansa_client.decode import Decoder
    from hansa_client.model import Base

__all__ = ["MAX_LENGTH", "Job", "Play", "Played", "Progress", "play"]

MAX_LENGTH = 4096
"""Tokens of an episode where no manifest says otherwise."""


@dataclass(frozen=True)
class Played:
    """What came of it."""

    episodes: list[Episode]
    """In the order of the jobs, without the broken ones."""
    generated: int
    """Tokens that the model wrote, in broken episodes too."""
    broken: list[Fault] = field(default_factory=list)
    """Why the others were dropped, one for each."""

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
    """Play all jobs; episodes come back in the jobs' order, whatever the batches were.

    Raises WorldBroken as soon as more of them are broken than may be.
    """
    import torch

    episodes: list[Episode] = []
    generated, successes = 0, 0
    tally = Tally(len(jobs), how.max_broken)
    with torch.inference_mode():
        for begin in range(0, len(jobs), how.batch_episodes):
            batch = jobs[begin : begin + how.batch_episodes]
            seats = [Seat(make_world(), job, how) for job in batch]
            with seated(seats) as each:
                _play_batch(base, seats, each, tally, _onwards(progress, begin, successes))
            episodes += [seat.episode() for seat in seats if not seat.fault]
            generated += sum(seat.written for seat in seats)
            successes = sum(episode.success for episode in episodes)
    return Played(episodes, generated, tally.faults)


def _onwards(progress: Progress, played: int, successes: int) -> Progress:
    """The progress of a batch, counted on from the episodes before it."""
    return lambda done, successful: progress(played + done, successes + successful)


def _play_batch(
    base: Base, seats: list[Seat], each: Each, tally: Tally, progress: Progress
) -> None:
    from hansa_client.decode import Decoder

    each(Seat.start, seats)
    playing = _unbroken(seats, tally)
    _listen(base, [seat for seat in playing if not seat.done], first=True)
    playing = [seat for seat in playing if not seat.done]
    decoder = Decoder(base, len(playing))
    while playing:
        _speak(base, decoder, playing)
        each(Seat.act, playing)
        going = [seat for seat in _unbroken(playing, tally) if not seat.done]
        _listen(base, going, first=False)
        left = [index for index, seat in enumerate(playing) if not seat.done]
        playing = [playing[index] for index in left]
        if playing:
            decoder.keep(left)
        progress(len(seats) - len(playing), sum(s.success and not s.fault for s in seats))


def _unbroken(seats: Sequence[Seat], tally: Tally) -> list[Seat]:
    """The seats whose worlds have not just failed; those that have are counted."""
    for seat in seats:
        if seat.fault:
            tally.add(seat.world, seat.fault)
    return [seat for seat in seats if not seat.fault]


def _speak(base: Base, decoder: Decoder, seats: list[Seat]) -> None:
    """Let the model write every row's next turn."""
    import numpy as np

    actions = decoder.write(
        [seat.unread for seat in seats],
        [seat.budget() for seat in seats],
        np.stack([seat.draws() for seat in seats]),
        seats[0].how.temperature,
    )
    for seat, tokens, text in zip(seats, actions, base.chat.texts(actions), strict=True):
        seat.say(tokens, text)


def _listen(base: Base, seats: list[Seat], *, first: bool) -> None:
    heard = base.chat.observations([seat.heard for seat in seats], first=first)
    for seat, tokens in zip(seats, heard, strict=True):
        # An action that was cut has no end: the model reads one, but is not trained on it.
        is_cut = not first and seat.unread[-1] not in base.chat.stops
        seat.hear([base.chat.end, *tokens] if is_cut else tokens)
