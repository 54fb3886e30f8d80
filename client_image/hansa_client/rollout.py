"""Playing episodes together: worlds speak, the model answers, until all are done.

Each row plays at its own pace: whoever has ended a turn acts and reads on while others still write,
and the next episode takes a row over as soon as one is done. An episode in which the world fails
is dropped and counted, and the others go on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hansa.errors import PermanentError
from hansa_client.faults import Fault, Tally
from hansa_client.seat import Hall, Job, Play, Seat
from hansa_client.trajectory import Episode
from hansa_client.worlds import World

if TYPE_CHECKING:
    from hansa_client.decode import Decoder
    from hansa_client.model import Base

__all__ = ["MAX_LENGTH", "Job", "Play", "Played", "Progress", "play"]

PATIENCE = 4
"""One in so many rows ends its turn before any acts: reading one by one costs more than waiting."""
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
    engine: str = ""
    """How the turns were decoded."""

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
    """Play all jobs; episodes come back in the jobs' order, whoever was played together.

    Raises WorldBroken as soon as more of them are broken than may be.
    """
    if not jobs:
        return Played([], 0)
    from hansa_client.engine import decoding

    tally = Tally(len(jobs), how.max_broken)
    rows = min(how.batch_episodes, len(jobs))
    with decoding(base, rows, how) as decoder, Hall(make_world, how, rows) as hall:
        seats = _Game(base, decoder, hall, tally, progress).play(jobs)
    _check_room(base, seats, how)
    return Played(
        [seat.episode() for seat in seats if not seat.fault],
        sum(seat.written for seat in seats),
        tally.faults,
        decoder.name,
    )


class _Game:
    """The episodes under way, by row."""

    def __init__(
        self, base: Base, decoder: Decoder, hall: Hall, tally: Tally, progress: Progress
    ) -> None:
        self._chat = base.chat
        self._decoder = decoder
        self._hall = hall
        self._tally = tally
        self._progress = progress
        self._playing: dict[int, Seat] = {}
        self._done = self._successes = 0

    def play(self, jobs: Sequence[Job]) -> list[Seat]:
        """Play all jobs to their ends; their seats in the jobs' order."""
        seats: list[Seat] = []
        waiting = deque(jobs)
        heard: dict[int, Seat] = {}
        while waiting or self._playing:
            fresh = self._seat(waiting)
            seats += fresh.values()
            self._hall.each(Seat.start, list(fresh.values()))
            heard |= self._listen(fresh, first=True)
            if heard:
                self._decoder.read([seat.ask(row) for row, seat in sorted(heard.items())])
            if not self._playing:
                continue
            spoke = self._speak()
            self._hall.each(Seat.act, list(spoke.values()))
            heard = self._listen(spoke, first=False)
        return seats

    def _seat(self, waiting: deque[Job]) -> dict[int, Seat]:
        """Seats for the next episodes, on the rows that are free."""
        if self._playing and not self._decoder.joins:
            return {}
        free = [row for row in range(self._decoder.rows) if row not in self._playing]
        fresh = {row: self._hall.take(waiting.popleft()) for row in free[: len(waiting)]}
        self._playing |= fresh
        return fresh

    def _speak(self) -> dict[int, Seat]:
        """Let the model write until turns are over; the seats whose turns are."""
        written = self._decoder.write(1 if self._hall.waits else PATIENCE)
        texts = self._chat.texts([tokens for _, tokens in written])
        for (row, tokens), text in zip(written, texts, strict=True):
            self._playing[row].say(tokens, text)
        return {row: self._playing[row] for row, _ in written}

    def _listen(self, seats: dict[int, Seat], *, first: bool) -> dict[int, Seat]:
        """Take in what the worlds said; the seats that go on, while the others leave."""
        for seat in seats.values():
            if seat.fault:
                self._tally.add(seat.world, seat.fault)
        listening = [seat for seat in seats.values() if not seat.done]
        heard = self._chat.observations([seat.heard for seat in listening], first=first)
        for seat, tokens in zip(listening, heard, strict=True):
            # An action that was cut has no end: the model reads one, but is not trained on it.
            is_cut = not first and seat.unread[-1] not in self._chat.stops
            seat.hear([self._chat.end, *tokens] if is_cut else tokens)
        self._leave({row: seat for row, seat in seats.items() if seat.done})
        return {row: seat for row, seat in seats.items() if not seat.done}

    def _leave(self, seats: dict[int, Seat]) -> None:
        if not seats:
            return
        self._hall.leave(list(seats.values()))
        for row, seat in seats.items():
            del self._playing[row]
            self._done += 1
            self._successes += seat.success and not seat.fault
        self._progress(self._done, self._successes)


def _check_room(base: Base, seats: Sequence[Seat], how: Play) -> None:
    """Refuse to go on where no task can even begin: it would look like an agent without skill."""
    if not all(seat.too_long for seat in seats):
        return
    shortest = min(seat.too_long for seat in seats)
    raise PermanentError(
        f"spec.training.maxLength: got {how.max_length} tokens for an episode (the model has "
        f"{base.longest(2**31)} positions), expected more than {shortest}: the first observation "
        "of every task is longer"
    )
