"""An AgentGym server and the sessions that this process has there.

What may be repeated is repeated: opening a session, setting a task up, looking. A step is not: when
its answer is lost, nobody knows whether the action counted, and the episode is broken off.
A lost answer to /create leaves a session behind that nobody closes; the server keeps it.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlencode

from hansa.core.http import HttpError
from hansa_worlds.agentgym.answers import (
    SessionId,
    StepResult,
    error_in,
    first_in,
    session_in,
    turn_in,
    words_in,
)
from hansa_worlds.agentgym.dialects import DIALECTS, foreign_field
from hansa_worlds.errors import OptionError, WorldDown
from hansa_worlds.remote.patience import PAUSES, Patience
from hansa_worlds.remote.wire import RemoteConnections

PROBE_SECONDS = 5.0
CLOSE_SECONDS = 5.0
WASTED = "The action could not be carried out."
"""What the agent reads when the server failed over its action, and lives on."""


@dataclass(frozen=True, kw_only=True)
class AgentGymAddress:
    """Where a server is and how patient to be with it; equal ones share their sessions."""

    url: str
    environment: str
    timeout_seconds: float = 60.0
    start_timeout_seconds: float = 120.0
    retries: int = 3
    sessions: int = 1024


@dataclass(frozen=True)
class Session:
    """One game that the server keeps for us."""

    id: SessionId
    words: tuple[str, ...] = ()
    """The words to guess from, where there are such."""


class SessionHolder:
    """Where a world keeps its session, so that it can be given back when the world is gone."""

    session: Session | None = None


class AgentGymServer:
    """Sessions are opened when all known ones play; one that nobody closed plays again."""

    def __init__(self, address: AgentGymAddress) -> None:
        self.address = address
        self.dialect = DIALECTS[address.environment]
        self._wire = RemoteConnections(address.url, address.timeout_seconds)
        self._opened: dict[SessionId, Session] = {}
        self._idle: deque[Session] = deque()  # no lock: a world may be collected at any moment
        self._opening = threading.Lock()
        self._pending = 0
        self._patience = Patience(
            lambda: self._wire.answers(PROBE_SECONDS), address.start_timeout_seconds, self._down
        )

    # -- an episode -------------------------------------------------------------------------------

    def begin(self, holder: SessionHolder, task: int) -> StepResult:
        """Set a task up in the holder's session, or in a new one if the server has lost that."""
        known = holder.session or self._take()
        if known is not None:
            holder.session = known
            try:
                return self._reset(known, task)
            except HttpError as fault:
                self._drop(holder, fault)
                if fault.kind not in ("status", "answer"):
                    raise WorldDown(f"agentgym: /reset brings {fault}") from None
        holder.session = self._open()
        try:
            return self._reset(holder.session, task)
        except HttpError as fault:
            self._drop(holder, fault)
            raise WorldDown(f"agentgym: /reset of task {task} brings {fault}") from None

    def act(self, holder: SessionHolder, action: str) -> StepResult:
        """Carry out one action, once; an error over the action itself is only a wasted turn."""
        session = holder.session
        if session is None:
            raise WorldDown("agentgym: the episode was broken off before")
        sent = {self.dialect.session: session.id, "action": self.dialect.sends.format(action)}
        try:
            answer = self._step(sent)
            self._check_dialect("/step", answer)
            error = error_in(answer)
            if error is None:
                return turn_in(answer, self.dialect)
            wasted = StepResult(f"Error: {error}")
            fault = HttpError("answer", "an error, and the session is lost")
        except HttpError as raised:
            wasted, fault = StepResult(WASTED), raised
            error = str(raised) if raised.kind == "status" else None
        if error is not None and self._lives(session):
            return wasted
        self._drop(holder, fault)
        raise WorldDown(f"agentgym: /step brings {fault}")

    def leave(self, holder: SessionHolder) -> None:
        """Close the holder's session; where the server has no way to, it serves another episode."""
        session = holder.session
        if session is None or not self.dialect.closes:
            self.release(holder)
            return
        holder.session = None
        self._opened.pop(session.id, None)
        with suppress(HttpError):
            self._close(session)

    def release(self, holder: SessionHolder) -> None:
        """Keep the holder's session for another episode, without a word to the server."""
        session, holder.session = holder.session, None
        if session is not None:
            self._idle.append(session)

    def _drop(self, holder: SessionHolder, fault: HttpError) -> None:
        """Forget a session that cannot be relied on; closed where the server still answers."""
        session, holder.session = holder.session, None
        if session is None:
            return
        self._opened.pop(session.id, None)
        if fault.kind in ("status", "answer"):
            with suppress(HttpError):
                self._close(session)

    # -- requests ---------------------------------------------------------------------------------

    def _take(self) -> Session | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _open(self) -> Session:
        """A new session; some servers take seconds for one, so that many are opened at once."""
        with self._opening:
            if len(self._opened) + self._pending >= self.address.sessions:
                raise OptionError(
                    f"options.sessions: got {self.address.sessions}, and as many episodes are being"
                    " played, expected as many as episodes at once (exploration.batchEpisodes)"
                )
            self._pending += 1
        try:
            session = self._create()
        except HttpError as fault:
            raise self._down(f"POST /create brings {fault}") from None
        finally:
            with self._opening:
                self._pending -= 1
        self._keep(session)
        return session

    def _keep(self, session: Session) -> None:
        """Note a session; servers with a limit give one away twice, which would mix episodes."""
        with self._opening:
            if session.id in self._opened:
                raise OptionError(
                    f"options.url: got {self.address.url}, a server that keeps no more than"
                    f" {len(self._opened)} sessions, expected as many as episodes at once"
                    " (exploration.batchEpisodes)"
                )
            self._opened[session.id] = session

    def _create(self) -> Session:
        answer = self._set_up("/create", self.dialect.create)
        session = Session(session_in(answer, self.dialect))
        if not self.dialect.words:
            return session
        return Session(session.id, words_in(self._ask(session, self.dialect.words)))

    def _reset(self, session: Session, task: int) -> StepResult:
        body = {
            self.dialect.session: session.id,
            self.dialect.task: task,
            **self.dialect.reset,
        }
        answer = self._set_up("/reset", body)
        return first_in(answer, self.dialect)

    def _set_up(self, path: str, body: Mapping[str, object]) -> object:
        """The answer to /create or /reset; one of another dialect's server is refused."""
        try:
            answer = self._patiently("POST", path, body)
        except HttpError as fault:
            if fault.status == 422:  # it wants other fields, and always will
                others = " or ".join(sorted(DIALECTS.keys() - {self.address.environment}))
                raise self._foreign(path, str(fault), others) from None
            raise
        self._check_dialect(path, answer)
        _refuse_error(answer)
        return answer

    def _check_dialect(self, path: str, answer: object) -> None:
        """Rewards and ends read by another server's words would be wrong without a sound."""
        if other := foreign_field(path, answer, self.address.environment):
            raise self._foreign(path, repr(other[0]), " or ".join(other[1]))

    def _foreign(self, path: str, came: str, fits: str) -> OptionError:
        return OptionError(
            f"options.environment: got {self.address.environment!r}, but"
            f" {self.address.url}{self.dialect.prefix}{path} brings {came}, expected {fits}"
        )

    def _step(self, body: Mapping[str, object]) -> object:
        """A step is repeated only when the server says that it did not begin."""
        for pause in (*PAUSES[: self.address.retries], None):
            try:
                return self._wire.call("POST", f"{self.dialect.prefix}/step", body)
            except HttpError as fault:
                if fault.kind == "refused":
                    self._patience.is_up = False
                if fault.kind != "busy" or pause is None:
                    raise
                time.sleep(pause)
        raise AssertionError("the last try returns or raises")

    def _lives(self, session: Session) -> bool:
        """Whether the server still knows the session: then it was the action that was wrong."""
        try:
            return error_in(self._ask(session, "/observation")) is None
        except (HttpError, WorldDown):
            return False

    def _ask(self, session: Session, path: str) -> object:
        return self._patiently("GET", f"{path}?{urlencode({self.dialect.session: session.id})}")

    def _patiently(
        self, method: str, path: str, body: Mapping[str, object] | None = None
    ) -> object:
        """A request that does no harm when it arrives twice."""
        for pause in (*PAUSES[: self.address.retries], None):
            self.wait()
            try:
                return self._wire.call(method, self.dialect.prefix + path, body)
            except HttpError as fault:
                if fault.kind == "refused":
                    self._patience.is_up = False
                if fault.kind in ("status", "answer") or pause is None:
                    raise
                time.sleep(pause)
        raise AssertionError("the last try returns or raises")

    # -- the server itself ------------------------------------------------------------------------

    def wait(self) -> None:
        """Until the server answers."""
        self._patience.wait()

    def close(self) -> None:
        """Close every session, as far as the server answers; a new episode opens new ones."""
        opened, self._opened = self._opened, {}
        self._idle.clear()
        if self._patience.is_up:
            with suppress(HttpError):
                for session in opened.values():
                    self._close(session)

    def _close(self, session: Session) -> None:
        if self.dialect.closes:
            body = {self.dialect.session: session.id}
            self._wire.call("POST", f"{self.dialect.prefix}/close", body, CLOSE_SECONDS)

    def _down(self, reason: str) -> WorldDown:
        return WorldDown(
            f"options.url: got {self.address.url}, where no AgentGym server for"
            f" {self.address.environment} answers ({reason}), expected one within"
            f" {self.address.start_timeout_seconds:g} seconds"
        )


def _refuse_error(answer: object) -> None:
    """Its words are not kept: what a server says may be what an agent said to it."""
    if error_in(answer) is not None:
        raise HttpError("answer", "an error")


@lru_cache(maxsize=64)
def server_at(address: AgentGymAddress) -> AgentGymServer:
    """The one server object of an address: the worlds of a process share its sessions."""
    server = AgentGymServer(address)
    atexit.register(server.close)
    return server


# A child process that shared its parent's connections would read its parent's answers.
os.register_at_fork(after_in_child=server_at.cache_clear)
