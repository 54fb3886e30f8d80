"""An OpenEnv server and the sessions that this process has there.

A reset may be repeated. A step is not: when its answer is lost, nobody knows whether the action
counted, and the episode is broken off.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from hansa.core.http import HttpError, Kind
from hansa_worlds.base import Observation
from hansa_worlds.errors import OptionError, WorldDown
from hansa_worlds.openenv.answers import has_any, turn_in
from hansa_worlds.openenv.channel import CAPACITY_REACHED, Channel, ServerError
from hansa_worlds.remote.patience import PAUSES, Patience
from hansa_worlds.remote.text import error_line
from hansa_worlds.remote.wire import RemoteConnections

PROBE_SECONDS = 5.0
OVER_THE_ACTION = frozenset({"VALIDATION_ERROR", "EXECUTION_ERROR"})
"""Codes of errors that an action may have caused: they cost a turn where the session lives on."""


@dataclass(frozen=True, kw_only=True)
class OpenEnvAddress:
    """Where a server is and how patient to be with it; equal ones share their sessions."""

    url: str
    timeout_seconds: float = 60.0
    start_timeout_seconds: float = 120.0
    retries: int = 3


class WrongFields(Exception):
    """The server's actions have other fields."""


class ChannelHolder:
    """Where a world keeps its session, so that it can be given back when the world is gone."""

    channel: Channel | None = None


class OpenEnvServer:
    """A session is opened when all known ones play; one that nobody closed plays again."""

    def __init__(self, address: OpenEnvAddress) -> None:
        self.address = address
        self._wire = RemoteConnections(address.url, address.timeout_seconds)
        self._idle: deque[Channel] = deque()  # no lock: a world may be collected at any moment
        self._lock = threading.Lock()
        self._opened: set[Channel] = set()
        self._patience = Patience(
            lambda: self._wire.answers(PROBE_SECONDS), address.start_timeout_seconds, self._down
        )

    def begin(
        self, holder: ChannelHolder, task: Mapping[str, object], fields: Sequence[str]
    ) -> Observation:
        """Set a task up in the holder's session, or in a new one where that is lost."""
        known = holder.channel or self._take()
        if known is not None:
            holder.channel = known
            try:
                return self._reset(known, task, fields)
            except HttpError:
                self._drop(holder)
        for pause in (*PAUSES[: self.address.retries], None):
            self._patience.wait()
            try:
                holder.channel = Channel(self.address.url, self.address.timeout_seconds)
                first = self._reset(holder.channel, task, fields)
            except HttpError as fault:
                self._drop(holder)
                if fault.kind == "refused":
                    self._patience.is_up = False
                if fault.kind in ("status", "answer") or pause is None:
                    raise self._refusal(fault) from None
                time.sleep(pause)
            else:
                with self._lock:
                    self._opened.add(holder.channel)
                return first
        raise AssertionError("the last try returns or raises")

    def act(
        self, holder: ChannelHolder, action: Mapping[str, object], fields: Sequence[str]
    ) -> Observation:
        """Carry out one action, once; an error over the action itself is only a wasted turn.

        WrongFields where the server's actions have other fields than this one.
        """
        channel = holder.channel
        if channel is None:
            raise WorldDown("openenv: the episode was broken off before")
        try:
            return turn_in(channel.ask("step", action), fields)
        except ServerError as error:
            if error.code in OVER_THE_ACTION and self._lives(channel):
                if error.wrong_fields:
                    raise WrongFields from None
                return Observation(f"Error: {error_line(error.words)}")
            reason = str(error)
        except HttpError as fault:
            reason = str(fault)
        self._drop(holder)
        raise WorldDown(f"openenv: step brings {reason}")

    def leave(self, holder: ChannelHolder) -> None:
        """Close the holder's session: servers have few."""
        self._drop(holder)

    def release(self, holder: ChannelHolder) -> None:
        """Keep the holder's session for another episode, without a word to the server."""
        channel, holder.channel = holder.channel, None
        if channel is not None:
            self._idle.append(channel)

    def close(self) -> None:
        """End every session; a new episode opens new ones."""
        with self._lock:
            opened, self._opened = self._opened, set()
        self._idle.clear()
        for channel in opened:
            channel.close()

    # -- sessions ---------------------------------------------------------------------------------

    def _take(self) -> Channel | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _drop(self, holder: ChannelHolder) -> None:
        channel, holder.channel = holder.channel, None
        if channel is not None:
            with self._lock:
                self._opened.discard(channel)
            channel.close()

    def _reset(
        self, channel: Channel, task: Mapping[str, object], fields: Sequence[str]
    ) -> Observation:
        try:
            data = channel.ask("reset", task)
        except ServerError as error:
            kind: Kind = "busy" if error.code == CAPACITY_REACHED else "answer"
            raise HttpError(kind, str(error)) from None
        if fields and not has_any(data, fields):
            raise OptionError(
                f"options.text_fields: got {', '.join(fields)}, expected fields of the observation"
                f" ({self.address.url}/schema lists them)"
            )
        return turn_in(data, fields)

    def _lives(self, channel: Channel) -> bool:
        """Whether the session still answers: then it was the action that was wrong."""
        try:
            channel.ask("state")
        except (HttpError, ServerError):
            return False
        return True

    def _refusal(self, fault: HttpError) -> OptionError | WorldDown:
        """A server that is full of our own episodes stays so; anything else may pass."""
        ours = len(self._opened)
        if fault.kind == "busy" and ours:
            return OptionError(
                f"options.url: got {self.address.url}, a server that has no room beside our {ours}"
                " sessions, expected as many as episodes at once (exploration.batchEpisodes, or"
                " the server's max_concurrent_envs)"
            )
        if fault.kind == "busy":
            return WorldDown(
                f"options.url: got {self.address.url}, an OpenEnv server that is full ({fault}),"
                " expected one with a free session"
            )
        if fault.kind == "refused":
            return self._down(str(fault))
        return WorldDown(f"openenv: reset brings {fault}")

    def _down(self, reason: str) -> WorldDown:
        return WorldDown(
            f"options.url: got {self.address.url}, where no OpenEnv server answers ({reason}),"
            f" expected one within {self.address.start_timeout_seconds:g} seconds"
        )


@lru_cache(maxsize=64)
def server_at(address: OpenEnvAddress) -> OpenEnvServer:
    """The one server object of an address: the worlds of a process share its sessions."""
    server = OpenEnvServer(address)
    atexit.register(server.close)
    return server


# A child process that shared its parent's connections would read its parent's answers.
os.register_at_fork(after_in_child=server_at.cache_clear)
