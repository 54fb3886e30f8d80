"""The HTTP client: responses of bounded size in bounded time, with retries and one error class.

Servers are not trusted: redirects, proxies of the environment and content encodings are ignored.
A server that sends its headers byte by byte is stopped only by the Job's own deadline.
"""

import json
import random
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    InvalidHeader,
    LocationParseError,
    NewConnectionError,
    ReadTimeoutError,
    SSLError,
)

from hansa.core.durations import backoff_seconds
from hansa.core.text import shorten

LARGEST = 1 << 20
"""Default limit of a response's bytes."""
CONNECT_SECONDS = 10.0
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 15.0
_CHUNK = 1 << 16

Kind = Literal["refused", "lost", "busy", "status", "answer"]
STATUSES: Mapping[int, Kind] = {
    408: "lost",
    425: "busy",
    429: "busy",
    500: "status",
    502: "lost",
    503: "busy",
    504: "lost",
    529: "busy",
}
"""Transient statuses. busy: the request was not begun, so any may be repeated; lost: from a proxy,
whose server may have got the request; status: the server failed at this request."""


@dataclass(frozen=True)
class Response:
    """What a server answered."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    """Names in lower case."""
    content: bytes = b""

    def json(self) -> Any:
        """The document, or an HttpError."""
        try:
            return json.loads(self.content)
        except (ValueError, RecursionError):
            raise HttpError("answer", "an answer that is no JSON", self) from None

    def sentence(self) -> str:
        """The server's error message, in any of the usual JSON shapes; empty: there is none."""
        try:
            said = json.loads(self.content)
        except (ValueError, RecursionError):
            return ""
        for _ in range(3):  # {"errors": [{"message": ...}]}
            if isinstance(said, list):
                said = said[0] if said else None
            elif isinstance(said, dict):
                names = ("error", "errors", "message", "detail", "error_message", "code")
                said = next((said[name] for name in names if said.get(name)), None)
        return shorten(said) if isinstance(said, str) else ""

    def parse_retry_after(self) -> float:
        """Retry-After in seconds, from a number or a date; 0: absent or invalid."""
        text = self.headers.get("retry-after", "")
        try:
            return urllib3.util.Retry().parse_retry_after(text) if text else 0.0
        except (InvalidHeader, ValueError, OverflowError):
            return 0.0


class HttpError(Exception):
    """A request without a usable response; the message holds nothing of the request."""

    def __init__(self, kind: Kind, message: str, response: Response | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        """refused: never reached the server; busy: not begun; lost: may have been executed; status
        and answer: the response is an error or invalid."""
        self.response = response
        """The response, where there is one."""

    @property
    def status(self) -> int:
        """The response's HTTP status; 0: there was none."""
        return self.response.status if self.response else 0

    @property
    def may_pass(self) -> bool:
        """Whether the same request may succeed later."""
        return self.kind in ("refused", "busy", "lost") or self.status in STATUSES


def make_status_error(response: Response) -> HttpError:
    """The error of a response with an unexpected status."""
    kind = STATUSES.get(response.status, "status")
    return HttpError(kind, f"HTTP {response.status}", response)


class HttpClient:
    """Requests to a few servers over pooled connections; safe to use from many threads."""

    def __init__(
        self,
        *,
        read_seconds: float = 120.0,
        whole_seconds: float | None = None,
        headers: Mapping[str, str] | None = None,
        largest: int = LARGEST,
        connections: int = 1,
        ca_certs: str | None = None,
    ) -> None:
        """`read_seconds` bounds a server's silence, `whole_seconds` an answer up to its end."""
        self._read_seconds = read_seconds
        self._whole_seconds = whole_seconds
        self._headers = {"Accept-Encoding": "identity", **(headers or {})}
        self._largest = largest
        self._random = random.Random()  # for pauses alone
        self._closed = threading.Event()
        self._pool = urllib3.PoolManager(maxsize=connections, block=True, ca_certs=ca_certs)

    def close(self) -> None:
        """Stop retries and waits in all threads."""
        self._closed.set()

    def pause(self, seconds: float) -> None:
        """Wait, unless the client is closed."""
        self._closed.wait(seconds)

    def send(
        self,
        method: str,
        url: str,
        *,
        document: object = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        largest: int | None = None,
        seconds: float | None = None,
    ) -> Response:
        """The response to one try, whatever its status; HttpError where there is none."""
        sent = {**self._headers, **(headers or {})}
        if document is not None:
            body = json.dumps(document).encode("ascii")
            sent["Content-Type"] = "application/json"
        read, whole = seconds or self._read_seconds, seconds or self._whole_seconds
        deadline = time.monotonic() + whole if whole else None
        try:
            response = self._pool.urlopen(
                method,
                url,
                body=body,
                headers=sent,
                timeout=urllib3.Timeout(connect=min(read, CONNECT_SECONDS), read=read),
                retries=False,
                redirect=False,
                preload_content=False,
                decode_content=False,
            )
        except (HTTPError, OSError) as error:
            raise _to_http_error(error, read) from None
        try:
            content = self._read(response, self._largest if largest is None else largest, deadline)
        except (HTTPError, OSError):
            raise HttpError("lost", "the answer broke off") from None
        finally:
            response.close()  # a connection that was read to its end stays in the pool
            response.release_conn()
        known = {name.lower(): value for name, value in response.headers.items()}
        return Response(response.status, known, content)

    def repeat(
        self,
        ask: Callable[[], Response],
        *,
        tries: int | None = None,
        patience_seconds: float | None = None,
        is_safe: bool = True,
    ) -> Response:
        """The first response without a transient status, after retries with exponential backoff.

        A request that is not safe to repeat is repeated only where it was not begun.
        """
        begun, tried = time.monotonic(), 0
        while True:
            tried += 1
            try:
                response = ask()
                if response.status not in STATUSES:
                    return response
                error = make_status_error(response)
            except HttpError as raised:
                error = raised
            may_repeat = error.may_pass if is_safe else error.kind in ("refused", "busy")
            if not may_repeat or self._closed.is_set():
                raise error
            share = self._random.random()
            pause = backoff_seconds(tried, share, FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
            asked = error.response.parse_retry_after() if error.response else 0.0
            if patience_seconds is None:  # a server could ask for a year
                asked = min(asked, LONGEST_PAUSE_SECONDS)
            pause, spent = max(pause, asked), time.monotonic() - begun
            is_late = patience_seconds is not None and spent + pause > patience_seconds
            if is_late or tried == tries:
                times = f"{tried} tries in {spent:.0f} s" if tried > 1 else "one try"
                raise HttpError(error.kind, f"{error}, {times}", error.response)
            self.pause(pause)

    def _read(
        self, response: urllib3.BaseHTTPResponse, largest: int, deadline: float | None
    ) -> bytes:
        """The body, read in pieces: a server that sends slowly never runs into the read timeout."""
        content = bytearray()
        while piece := response.read1(_CHUNK, decode_content=False):
            content += piece
            if len(content) > largest:
                raise HttpError("answer", f"an answer of more than {largest} bytes")
            if self._closed.is_set() or (deadline and time.monotonic() > deadline):
                raise HttpError("lost", "no whole answer in time")
        return bytes(content)


def _to_http_error(error: Exception, seconds: float) -> HttpError:
    if isinstance(error, NewConnectionError):
        return HttpError("refused", explain_refusal(error.__cause__))
    if isinstance(error, ConnectTimeoutError):
        return HttpError("refused", "no connection in time")
    if isinstance(error, SSLError):
        return HttpError("refused", "no trusted TLS connection")
    if isinstance(error, LocationParseError):
        return HttpError("refused", "no such address")
    if isinstance(error, ReadTimeoutError):
        return HttpError("lost", f"no answer within {seconds:g} s")
    return HttpError("lost", "the connection broke off")


def explain_refusal(error: BaseException | None) -> str:
    """Why a connection failed."""
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, socket.gaierror | UnicodeError):
        return "no such host"
    return "no connection in time" if isinstance(error, TimeoutError) else "no connection"
