"""An AgentGym server and this process's sessions there.

Opening a session, setting a task up and looking are retried. A step is not: when
its answer is lost, nobody knows whether the action counted, and the episode is broken off.
A lost answer to /create leaves an open session on the server.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlencode

from hansa.core.http import HttpError
from hansa_worlds.agentgym import answers
from hansa_worlds.agentgym.dialects import DIALECTS, find_foreign_field
from hansa_worlds.errors import OptionError, WorldDown
from hansa_worlds.remote.server import Address, RemoteServer, SessionHolder

CLOSE_SECONDS = 5.0
WASTED = "The action could not be carried out."
"""What the agent reads when its action failed on the server but the session survived."""


@dataclass(frozen=True, kw_only=True)
class AgentGymAddress(Address):
    """Where a server is, and which of the environments it has."""

    environment: str
    sessions: int = 1024


@dataclass(frozen=True)
class Session:
    """One game that the server keeps for us."""

    id: answers.SessionId
    words: tuple[str, ...] = ()
    """The words to guess from, where there are such."""


Holder = SessionHolder[Session]


class AgentGymServer(RemoteServer[Session]):
    """An AgentGym server of one environment."""

    address: AgentGymAddress

    def __init__(self, address: AgentGymAddress) -> None:
        super().__init__(address, f"AgentGym server for {address.environment}")
        self.dialect = DIALECTS[address.environment]
        self._opened: dict[answers.SessionId, Session] = {}
        self._pending = 0

    # -- an episode -------------------------------------------------------------------------------

    def begin(self, holder: Holder, task: int) -> answers.StepResult:
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

    def act(self, holder: Holder, action: str) -> answers.StepResult:
        """Carry out one action, once; an error over the action itself is only a wasted turn."""
        session = holder.session
        if session is None:
            raise WorldDown("agentgym: the episode was broken off before")
        sent = {self.dialect.session: session.id, "action": self.dialect.sends.format(action)}
        try:
            # A step is repeated only when the server says that it did not begin.
            answer = self._repeat(
                lambda: self._wire.call("POST", f"{self.dialect.prefix}/step", sent),
                lambda fault: fault.kind != "busy",
                waits=False,
            )
            self._check_dialect("/step", answer)
            error = answers.find_error(answer)
            if error is None:
                return answers.parse_turn(answer, self.dialect)
            wasted = answers.StepResult(f"Error: {error}")
            fault = HttpError("answer", "an error, and the session is lost")
        except HttpError as raised:
            wasted, fault = answers.StepResult(WASTED), raised
            error = str(raised) if raised.kind == "status" else None
        if error is not None and self._is_alive(session):
            return wasted
        self._drop(holder, fault)
        raise WorldDown(f"agentgym: /step brings {fault}")

    def leave(self, holder: Holder) -> None:
        """Close the holder's session; where the server has no way to, it serves another episode."""
        session = holder.session
        if session is None or not self.dialect.closes:
            self.release(holder)
            return
        holder.session = None
        self._opened.pop(session.id, None)
        with suppress(HttpError):
            self._close(session)

    def _drop(self, holder: Holder, fault: HttpError) -> None:
        """Forget a session that cannot be relied on; closed where the server still answers."""
        session, holder.session = holder.session, None
        if session is None:
            return
        self._opened.pop(session.id, None)
        if fault.kind in ("status", "answer"):
            with suppress(HttpError):
                self._close(session)

    # -- requests ---------------------------------------------------------------------------------

    def _open(self) -> Session:
        """A new session; several are opened in parallel, as some servers take seconds for one."""
        with self._lock:
            if len(self._opened) + self._pending >= self.address.sessions:
                raise OptionError(
                    f"options.sessions: got {self.address.sessions}, and as many episodes are being"
                    " played, expected as many as episodes at once (exploration.batchEpisodes)"
                )
            self._pending += 1
        try:
            session = self._create()
        except HttpError as fault:
            raise self._make_down_error(f"POST /create brings {fault}") from None
        finally:
            with self._lock:
                self._pending -= 1
        self._register_session(session)
        return session

    def _register_session(self, session: Session) -> None:
        """Note a session; servers with a limit give one away twice, which would mix episodes."""
        with self._lock:
            if session.id in self._opened:
                raise OptionError(
                    f"options.url: got {self.address.url}, a server that keeps no more than"
                    f" {len(self._opened)} sessions, expected as many as episodes at once"
                    " (exploration.batchEpisodes)"
                )
            self._opened[session.id] = session

    def _create(self) -> Session:
        answer = self._set_up("/create", self.dialect.create)
        session = Session(answers.parse_session(answer, self.dialect))
        if not self.dialect.words:
            return session
        return Session(session.id, answers.parse_words(self._ask(session, self.dialect.words)))

    def _reset(self, session: Session, task: int) -> answers.StepResult:
        body = {self.dialect.session: session.id, self.dialect.task: task, **self.dialect.reset}
        return answers.parse_first(self._set_up("/reset", body), self.dialect)

    def _set_up(self, path: str, body: Mapping[str, object]) -> object:
        """The answer to /create or /reset; one of another dialect's server is refused."""
        try:
            answer = self._call_with_retries("POST", path, body)
        except HttpError as fault:
            if fault.status == 422:  # it wants other fields, and always will
                others = " or ".join(sorted(DIALECTS.keys() - {self.address.environment}))
                raise self._make_dialect_error(path, str(fault), others) from None
            raise
        self._check_dialect(path, answer)
        if answers.find_error(answer) is not None:
            # Its text is not kept: it may quote what an agent said.
            raise HttpError("answer", "an error")
        return answer

    def _check_dialect(self, path: str, answer: object) -> None:
        """Rewards and ends read by another server's fields would be silently wrong."""
        if other := find_foreign_field(path, answer, self.address.environment):
            raise self._make_dialect_error(path, repr(other[0]), " or ".join(other[1]))

    def _make_dialect_error(self, path: str, came: str, fits: str) -> OptionError:
        return OptionError(
            f"options.environment: got {self.address.environment!r}, but"
            f" {self.address.url}{self.dialect.prefix}{path} brings {came}, expected {fits}"
        )

    def _is_alive(self, session: Session) -> bool:
        """Whether the server still knows the session: then it was the action that was wrong."""
        try:
            return answers.find_error(self._ask(session, "/observation")) is None
        except (HttpError, WorldDown):
            return False

    def _ask(self, session: Session, path: str) -> object:
        return self._call_with_retries(
            "GET", f"{path}?{urlencode({self.dialect.session: session.id})}"
        )

    def _call_with_retries(
        self, method: str, path: str, body: Mapping[str, object] | None = None
    ) -> object:
        """A request that does no harm when it arrives twice."""
        return self._repeat(lambda: self._wire.call(method, self.dialect.prefix + path, body))

    def close(self) -> None:
        """Close every session, as far as the server answers; a new episode opens new ones."""
        opened, self._opened = self._opened, {}
        self._idle.clear()
        if self._is_up:
            with suppress(HttpError):
                for session in opened.values():
                    self._close(session)

    def _close(self, session: Session) -> None:
        if self.dialect.closes:
            body = {self.dialect.session: session.id}
            self._wire.call("POST", f"{self.dialect.prefix}/close", body, CLOSE_SECONDS)
