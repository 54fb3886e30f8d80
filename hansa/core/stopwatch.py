"""Stopwatch: seconds of each phase, from one lap to the next."""

import time
from collections.abc import Callable

Clock = Callable[[], float]


class Stopwatch:
    """Counts from its making; the clock comes in, so that tests can turn it."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._since = clock()
        self.seconds: dict[str, float] = {}
        """Phases that are over."""

    def lap(self, phase: str) -> float:
        """A phase is over; its seconds."""
        now = self._clock()
        self.seconds[phase] = round(now - self._since, 3)
        self._since = now
        return self.seconds[phase]
