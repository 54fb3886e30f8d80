"""One server over HTTP: small JSON answers in bounded time, and a name for each way to fail.

Nothing is trusted: no redirect is followed, no proxy of the environment is used, no answer is
unpacked, and one that is too large, too slow or no JSON is a fault. A server that drips its headers
byte by byte is stopped only by the Job's own deadline.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Literal, NoReturn

import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    LocationParseError,
    NewConnectionError,
    ReadTimeoutError,
    SSLError,
)

LARGEST = 1 << 20
"""Bytes of an answer; a page of text has a few thousand."""
CONNECT_SECONDS = 10.0
CONNECTIONS = 128
"""Kept open for the next turn; more callers at once wait for one another."""

BUSY = frozenset({429, 503})
"""Statuses that say that the request was not begun, so that any may be repeated."""
BEHIND = frozenset({502, 504})
"""Statuses of a proxy whose server may have had the request or not."""

Kind = Literal["refused", "lost", "busy", "status", "answer"]


class Fault(Exception):
    """A request that brought no answer to use; the message is half a sentence."""

    def __init__(self, kind: Kind, reason: str, status: int | None = None) -> None:
        super().__init__(reason)
        self.status = status
        """The answer's HTTP status, where it is what was wrong."""
        self.kind = kind
        """refused: never reached the server; busy: not begun; lost: may have counted, and nobody
        knows; status and answer: came back, and is no use."""


class Wire:
    """Connections to one server, kept open between requests; safe to use from many threads."""

    def __init__(self, url: str, timeout_seconds: float) -> None:
        self.url = url
        self._seconds = timeout_seconds
        self._pool = urllib3.PoolManager(num_pools=1, maxsize=CONNECTIONS, block=True)

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        seconds: float | None = None,
    ) -> object:
        """Whatever JSON the server answers with status 200."""
        limit = self._seconds if seconds is None else seconds
        deadline = time.monotonic() + limit
        response = self._send(method, path, body, limit)
        try:
            _check_status(response.status)
            return parse_json(_read(response, deadline))
        except HTTPError as error:
            raise Fault("lost", f"the answer broke off, {type(error).__name__}") from None
        finally:
            response.close()  # a connection whose answer was read to its end is kept all the same
            response.release_conn()

    def answers(self, seconds: float) -> Fault | None:
        """Why nobody answers at the address, or None when somebody does, whatever it says."""
        try:
            self.call("GET", "/", seconds=seconds)
        except Fault as fault:
            return None if fault.kind in ("status", "answer") else fault
        return None

    def _send(
        self, method: str, path: str, body: Mapping[str, object] | None, limit: float
    ) -> urllib3.BaseHTTPResponse:
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            return self._pool.urlopen(
                method,
                self.url + path,
                body=None if body is None else json.dumps(body).encode("ascii"),
                headers=headers,
                timeout=urllib3.Timeout(connect=min(limit, CONNECT_SECONDS), read=limit),
                retries=False,
                redirect=False,
                preload_content=False,
                decode_content=False,
            )
        except HTTPError as error:
            raise _fault(error, limit) from None


def _fault(error: HTTPError, limit: float) -> Fault:
    if isinstance(error, NewConnectionError):
        return Fault("refused", _why_refused(error))
    if isinstance(error, ConnectTimeoutError):
        return Fault("refused", "no connection in time")
    if isinstance(error, SSLError):
        return Fault("refused", "no trusted TLS connection")
    if isinstance(error, LocationParseError):
        return Fault("refused", "no such address")
    if isinstance(error, ReadTimeoutError):
        return Fault("lost", f"no answer within {limit:g} seconds")
    return Fault("lost", "the connection broke off")


def _why_refused(error: NewConnectionError) -> str:
    said = str(error).lower()
    if "refused" in said:
        return "connection refused"
    if "resolve" in said or "name or service" in said:
        return "no such host"
    return "no connection"


def _check_status(status: int) -> None:
    if status == 200:
        return
    if status in BUSY:
        raise Fault("busy", f"HTTP {status}")
    raise Fault("lost" if status in BEHIND else "status", f"HTTP {status}", status)


def _read(response: urllib3.BaseHTTPResponse, deadline: float) -> bytes:
    """The body; read as it comes, since a server that drips it never runs into a read timeout."""
    body = bytearray()
    while chunk := response.read1(1 << 16, decode_content=False):
        body += chunk
        if len(body) > LARGEST:
            raise Fault("answer", f"an answer of more than {LARGEST} bytes")
        if time.monotonic() > deadline:
            raise Fault("lost", "no whole answer in time")
    return bytes(body)


def parse_json(body: bytes | str) -> object:
    """An answer's JSON, in which every number is one."""
    try:
        text = body if isinstance(body, str) else body.decode("utf-8")
        answer: object = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise Fault("answer", "an answer that is no JSON") from None
    return answer


def _no_number(name: str) -> NoReturn:
    raise ValueError(name)
