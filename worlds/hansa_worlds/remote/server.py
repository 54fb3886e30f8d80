"""A server that plays episodes, by any protocol: this process's sessions, and a world in one."""

import atexit
import os
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Generic, TypeVar

from hansa.core.http import HttpError
from hansa_worlds.base import World
from hansa_worlds.errors import WorldDown
from hansa_worlds.options import Options
from hansa_worlds.remote.wire import RemoteConnections

PAUSES = (0.1, 0.3, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0, 8.0, 8.0)
"""Seconds before each repeated try."""
PROBE_SECONDS = 5.0
"""How long one probe of the server may take."""
POLL_SECONDS = 0.5
"""Between two probes of a server that is not up yet."""
REST_SECONDS = 2.0
"""After a timeout no episode probes again for so long: all those of a batch would."""
Session = TypeVar("Session")
Answer = TypeVar("Answer")


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where a server is and how long to wait for it; equal ones share their sessions."""

    url: str
    timeout_seconds: float = 60.0
    start_timeout_seconds: float = 120.0
    retries: int = 3


def read_address(read: Options, default: str) -> dict[str, Any]:
    """The fields of an Address, from the options of every world that is on a server."""
    return {
        "url": read.text("url", default),
        "timeout_seconds": read.number("timeout_seconds", 60.0, 0.05, 3600.0),
        "start_timeout_seconds": read.number("start_timeout_seconds", 120.0, 0.0, 3600.0),
        "retries": read.integer("retries", 3, 0, 10),
    }


class SessionHolder(Generic[Session]):
    """Where a world keeps its session, so that it can be given back when the world is gone."""

    session: Session | None = None


class RemoteServer(ABC, Generic[Session]):
    """Opens a session when all known ones are in use; one that nobody closed is used again."""

    def __init__(self, address: Address, what: str) -> None:
        self.address = address
        self._what = what
        self._wire = RemoteConnections(address.url, address.timeout_seconds)
        self._idle: deque[Session] = deque()  # no lock: a world may be collected at any moment
        self._lock = threading.Lock()
        self._is_up = False
        self._probing = threading.Lock()
        self._fault: HttpError | None = None
        self._gave_up_at = 0.0

    def release(self, holder: SessionHolder[Session]) -> None:
        """Keep the holder's session for another episode, without a word to the server."""
        session, holder.session = holder.session, None
        if session is not None:
            self._idle.append(session)

    @abstractmethod
    def leave(self, holder: SessionHolder[Session]) -> None:
        """Close the holder's session."""

    @abstractmethod
    def close(self) -> None:
        """Close every session; a new episode opens new ones."""

    def _take(self) -> Session | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _repeat(
        self,
        send: Callable[[], Answer],
        is_final: Callable[[HttpError], bool] = lambda fault: fault.kind in ("status", "answer"),
        *,
        waits: bool = True,
    ) -> Answer:
        """Send until there is an answer, or a fault that another try does not change."""
        for pause in (*PAUSES[: self.address.retries], None):
            if waits:
                self._wait()
            try:
                return send()
            except HttpError as fault:
                if fault.kind == "refused":
                    self._is_up = False
                if pause is None or is_final(fault):
                    raise
                time.sleep(pause)
        raise AssertionError("the last try returns or raises")

    def _wait(self) -> None:
        """Until the server answers: a sidecar may need a minute, at the start or after a crash.

        After one timeout each call probes only once, or every episode of a batch would wait.
        """
        if self._is_up:
            return
        with self._probing:
            if self._fault and time.monotonic() - self._gave_up_at < REST_SECONDS:
                raise self._make_down_error(str(self._fault))  # the others have just waited
            timeout = 0.0 if self._fault else self.address.start_timeout_seconds
            deadline = time.monotonic() + timeout
            while not self._is_up:
                fault = self._wire.probe(PROBE_SECONDS)
                if fault is None:
                    self._is_up, self._fault = True, None
                elif time.monotonic() + POLL_SECONDS > deadline:
                    self._fault, self._gave_up_at = fault, time.monotonic()
                    raise self._make_down_error(str(fault))
                else:
                    time.sleep(POLL_SECONDS)

    def _make_down_error(self, reason: str) -> WorldDown:
        return WorldDown(
            f"options.url: got {self.address.url}, where no {self._what} answers ({reason}),"
            f" expected one within {self.address.start_timeout_seconds:g} seconds"
        )


@lru_cache(maxsize=64)
def get_server(kind: Callable[[Any], RemoteServer[Any]], address: Address) -> Any:
    """The one server object of an address: the worlds of a process share its sessions."""
    server = kind(address)
    atexit.register(server.close)
    return server


# A child process that shared its parent's connections would read its parent's answers.
os.register_at_fork(after_in_child=get_server.cache_clear)


class RemoteWorld(World):
    """Keeps its session from episode to episode until it is closed.

    The session of a world that is gone goes to the next world of the process. Equal tasks give
    equal episodes only as far as the server does so.
    """

    waits: ClassVar[bool] = True
    _server: RemoteServer[Any]
    _holder: SessionHolder[Any]

    def _release_when_gone(self) -> None:
        weakref.finalize(self, self._server.release, self._holder).atexit = False

    def close(self) -> None:
        """Close the session, or leave it to another world where the server cannot close it."""
        self._server.leave(self._holder)
