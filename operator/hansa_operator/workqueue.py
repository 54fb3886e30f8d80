"""A queue of objects to reconcile: each at most once, never by two workers, with backoff."""

import asyncio
import time
from contextlib import suppress

from hansa_operator.index import Key

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0


class WorkQueue:
    """Keys with the moment when their next pass is due; adding one twice is adding it once."""

    def __init__(self) -> None:
        self._due: dict[Key, float] = {}
        self._busy: set[Key] = set()
        self._failures: dict[Key, int] = {}
        self._changed = asyncio.Event()

    def add(self, key: Key, delay: float = 0.0) -> None:
        """Ask for a pass after a delay; an earlier one that is asked for already stays."""
        due = time.monotonic() + max(0.0, delay)
        if due < self._due.get(key, float("inf")):
            self._due[key] = due
            self._changed.set()

    def failed(self, key: Key) -> float:
        """Ask for another try of a pass that failed, later each time; returns how much later."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        pause = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(failures, 10))
        self.add(key, pause)
        return pause

    def succeeded(self, key: Key) -> None:
        """The next failure is a first one again."""
        self._failures.pop(key, None)

    def depth(self, key: Key) -> int:
        """1 while a pass over this federation is due and waits for a worker."""
        return int(self._due.get(key, float("inf")) <= time.monotonic())

    def overdue_seconds(self) -> float:
        """How long the pass that has waited longest has been due; 0 when none waits."""
        waiting = [due for key, due in self._due.items() if key not in self._busy]
        return max(0.0, time.monotonic() - min(waiting, default=time.monotonic()))

    async def get(self) -> Key:
        """The next key whose pass is due; `done` must follow."""
        while True:
            now = time.monotonic()
            waiting = [(due, key) for key, due in self._due.items() if key not in self._busy]
            due, key = min(waiting, default=(float("inf"), None))
            if key is not None and due <= now:
                del self._due[key]
                self._busy.add(key)
                return key
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(due - now if key else None):
                    await self._changed.wait()

    def done(self, key: Key) -> None:
        """The pass over this key has ended; another may begin."""
        self._busy.discard(key)
        self._changed.set()
