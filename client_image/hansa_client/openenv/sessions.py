"""Sessions: one world each, of which there are only so many at a time."""

from __future__ import annotations

import random
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from uuid import uuid4

from hansa_client.openenv.documents import (
    LONGEST_ID,
    Document,
    Refused,
    check_known,
    invalid,
    message_in,
    seed_in,
    text_in,
)
from hansa_worlds import Observation, Task, World, WorldError
from hansa_worlds.base import SPLITS

IDLE_SECONDS = 600.0
"""How long an episode that is played by single requests may wait for the next, when there is need
of room."""
SHARED = "default"
"""The episode of single requests that name none."""


class Session:
    """One world, and the episode that is played in it."""

    def __init__(self, name: str, world: World) -> None:
        self._name = name
        self._world = world
        self._task: Task | None = None
        self._episode = ""
        self._turns = 0
        self._done = False

    def reset(self, given: Document) -> Document:
        """Begin an episode: seed n is task n of the split."""
        check_known(given, ("seed", "split", "episode_id"))
        seed, split = seed_in(given), text_in(given, "split", 40) or "train"
        if split not in SPLITS:
            raise invalid("split", "enum", f"expected {' or '.join(SPLITS)}")
        episode = text_in(given, "episode_id", LONGEST_ID) or str(uuid4())
        tasks = self._world.tasks(split)
        number = random.randrange(len(tasks)) if seed is None else seed % len(tasks)
        self._task = None
        observation = self._guarded(lambda: self._world.start(tasks[number]))
        self._task, self._episode, self._turns, self._done = tasks[number], episode, 0, False
        return self._turn(observation)

    def step(self, action: object) -> Document:
        """Play one turn."""
        message = message_in(action)
        if self._task is None:
            raise Refused("EXECUTION_ERROR", "no episode has begun: reset comes first")
        observation = self._guarded(lambda: self._world.step(message))
        self._turns += 1
        self._done = observation.done
        return self._turn(observation)

    def state(self) -> Document:
        """Where the episode is."""
        if self._task is None:
            return {"episode_id": None, "step_count": 0, "world": self._name}
        return {
            "episode_id": self._episode,
            "step_count": self._turns,
            "world": self._name,
            "task": self._task.id,
            "split": self._task.split,
            "done": self._done,
            "success": self._world.success,
        }

    def close(self) -> None:
        """Give back what the world holds."""
        self._world.close()

    def _turn(self, observation: Observation) -> Document:
        metadata = {name: self.state()[name] for name in ("episode_id", "task", "success")}
        return {
            "observation": {"text": observation.text, "metadata": metadata},
            "reward": float(observation.reward),
            "done": observation.done,
            "metadata": metadata,
        }

    def _guarded(self, play: Callable[[], Observation]) -> Observation:
        try:
            return play()
        except WorldError as error:
            self._task = None
            raise Refused("EXECUTION_ERROR", str(error)) from None


class Sessions:
    """All sessions of a server: those of connections, and episodes of single requests."""

    def __init__(self, name: str, make: Callable[[], World], most: int) -> None:
        self.name = name
        self.most = most
        self._make = make
        self._taken = 0
        self._single: OrderedDict[str, _Single] = OrderedDict()  # the longest unused first
        self._lock = threading.Condition()

    @contextmanager
    def open(self) -> Iterator[Session]:
        """A session of a connection; Refused where there is no room."""
        self._take()
        try:
            with closing(Session(self.name, self._make())) as session:
                yield session
        finally:
            self._give_back()

    def single(self, episode: str | None, *, begins: bool) -> _Single:
        """The session of an episode of single requests; Refused where there is none."""
        key = episode or SHARED
        with self._lock:
            known = self._single.get(key)
            if known:
                known.used = time.monotonic()
                self._single.move_to_end(key)
                return known
        if not begins:
            raise Refused("EXECUTION_ERROR", "no such episode has begun: reset comes first")
        self._take()
        try:
            made = _Single(Session(self.name, self._make()))
        except BaseException:
            self._give_back()
            raise
        with self._lock:
            known = self._single.setdefault(key, made)
        if known is not made:  # another request began it at the same time
            made.session.close()
            self._give_back()
        return known

    def close(self, seconds: float) -> None:
        """Wait for connections to end, not for long, and end the episodes of single requests."""
        with self._lock:
            self._lock.wait_for(lambda: self._taken <= len(self._single), timeout=seconds)
            known = [each.session for each in self._single.values()]
            self._single.clear()
        for session in known:
            session.close()

    def _give_back(self) -> None:
        with self._lock:
            self._taken -= 1
            self._lock.notify_all()

    def _take(self) -> None:
        """Make room for one more, if need be in place of an episode that was left."""
        gone = None
        with self._lock:
            if self._taken >= self.most:
                key = next(iter(self._single), None)
                left = time.monotonic() - IDLE_SECONDS
                if key is None or self._single[key].used > left:
                    raise Refused(
                        "CAPACITY_REACHED",
                        f"all {self.most} sessions are taken",
                        active_sessions=self._taken,
                        max_sessions=self.most,
                    )
                gone = self._single.pop(key).session
                self._taken -= 1
            self._taken += 1
        if gone:
            gone.close()


class _Single:
    """An episode of single requests: one at a time plays in it."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.lock = threading.Lock()
        self.used = time.monotonic()
