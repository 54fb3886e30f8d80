"""Stopwatch: seconds of each phase, from one lap to the next."""

import time
from collections.abc import Callable

Clock = Callable[[], float]


class Stopwatch:
    """Starts when it is created; tests pass a clock of their own."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._since = clock()
        self.seconds: dict[str, float] = {}
        """Seconds of the finished phases."""

    def lap(self, phase: str) -> float:
        """End a phase; its seconds."""
        now = self._clock()
        self.seconds[phase] = round(now - self._since, 3)
        self._since = now
        return self.seconds[phase]
