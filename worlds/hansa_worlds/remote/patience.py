"""Waiting for a server that is not up yet, or no longer: once for all episodes of a batch."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from hansa.core.http import HttpError
from hansa_worlds.errors import WorldDown

PAUSES = (0.1, 0.3, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0, 8.0, 8.0)
"""Seconds before each repeated try."""
POLL_SECONDS = 0.5
"""Between two looks at a server that is not up yet."""
REST_SECONDS = 2.0
"""After a vain wait: every episode of a batch would look once more."""


class Patience:
    """Whether a server is up; `wait` looks until it is."""

    def __init__(
        self,
        probe: Callable[[], HttpError | None],
        seconds: float,
        down: Callable[[str], WorldDown],
    ) -> None:
        self.is_up = False
        self._probe = probe
        self._seconds = seconds
        self._down = down
        self._looking = threading.Lock()
        self._fault: HttpError | None = None
        self._gave_up = 0.0

    def wait(self) -> None:
        """Until the server answers: a sidecar may need a minute, at the start or after a crash.

        Once waited for in vain, it is looked at only once each time: every episode would wait.
        """
        if self.is_up:
            return
        with self._looking:
            if self._fault and time.monotonic() - self._gave_up < REST_SECONDS:
                raise self._down(str(self._fault))  # the others have just waited
            patience = 0.0 if self._fault else self._seconds
            deadline = time.monotonic() + patience
            while not self.is_up:
                fault = self._probe()
                if fault is None:
                    self.is_up, self._fault = True, None
                elif time.monotonic() + POLL_SECONDS > deadline:
                    self._fault, self._gave_up = fault, time.monotonic()
                    raise self._down(str(fault))
                else:
                    time.sleep(POLL_SECONDS)
