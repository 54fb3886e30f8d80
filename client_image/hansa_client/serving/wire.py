"""The wire: requests from untrusted clients, read with limits on their time and size."""

import io
import select
import socket
import time
from collections.abc import Callable
from email.message import Message
from http import HTTPStatus
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, TypeVar

from hansa_client.serving.errors import ClientGone, OpenAIError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MOST_BYTES = 2**20
"""Of a body."""
MOST_HEAD_BYTES = 32 * 2**10
"""Of a request line and its headers."""
IDLE_SECONDS = 75.0
"""How long a connection may wait for its next request."""
CROWDED_SECONDS = 2.0
"""The same while few connections are left for others."""
READ_SECONDS = 20.0
"""How long a request may take to arrive, from its first byte on."""
WRITE_SECONDS = 30.0
"""How long a client may take to accept a piece of its answer."""
LOOK_SECONDS = 0.25
"""How often a waiting request checks whether its client has disconnected."""
ANSWER_SECONDS = 600.0
"""The longest that a client waits for the end of an answer."""
Event = TypeVar("Event")
_DISCARDED = 16 * MOST_BYTES
_LINGER_SECONDS = 2.0


class HeadTooLong(Exception):
    """A request's line and headers are longer than they may be."""


class TimedReader(io.RawIOBase):
    """A socket as a file: one deadline for a request however slowly it drips, one size of heads."""

    def __init__(self, connection: socket.socket, is_crowded: Callable[[], bool]) -> None:
        self._connection = connection
        self._is_crowded = is_crowded
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)
        self._restarted = self._until = 0.0
        self._has_begun = False
        self._room = 0

    def restart(self) -> None:
        """Another request may come."""
        self._restarted = time.monotonic()
        self._until = self._restarted + IDLE_SECONDS
        self._has_begun = False
        self._room = MOST_HEAD_BYTES

    def take_body(self) -> None:
        """The head is over; `read_body` bounds what follows."""
        self._room = io.DEFAULT_BUFFER_SIZE + MOST_BYTES

    def readable(self) -> bool:
        """As io.RawIOBase wants it."""
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        """What has arrived, at least a byte; TimeoutError after the deadline."""
        if self._room <= 0:
            raise HeadTooLong
        self._wait()
        count = self._connection.recv_into(buffer)
        self._room -= count
        if not self._has_begun:
            self._has_begun = True
            self._until = time.monotonic() + READ_SECONDS
        return count

    def _wait(self) -> None:
        """Until something has arrived; an idle connection gives way to others."""
        while True:
            now = time.monotonic()
            until = self._until
            if not self._has_begun and self._is_crowded():
                until = min(until, self._restarted + CROWDED_SECONDS)
            if now >= until:
                raise TimeoutError("the request did not arrive in time")
            if self._poll.poll(1000 * min(until - now, CROWDED_SECONDS)):
                return


def read_body(headers: Message, file: io.BufferedIOBase) -> bytes:
    """The body; OpenAIError where it is too long, its length unknown, or it does not arrive."""
    if "Transfer-Encoding" in headers:
        raise OpenAIError(
            HTTPStatus.LENGTH_REQUIRED,
            "Transfer-Encoding: got a body in chunks, expected Content-Length",
        )
    lengths = set(headers.get_all("Content-Length", []))
    text = lengths.pop().strip() if len(lengths) == 1 else ""
    if lengths or not (text.isascii() and text.isdecimal()):
        raise OpenAIError(HTTPStatus.LENGTH_REQUIRED, "Content-Length: expected one number")
    if len(text) > 15 or int(text) > MOST_BYTES:
        raise OpenAIError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"the body: got {text[:15]} bytes, expected at most {MOST_BYTES}",
        )
    length = int(text)
    try:
        body = file.read(length)
    except TimeoutError:
        raise OpenAIError(
            HTTPStatus.REQUEST_TIMEOUT,
            f"the body: got less than {length} bytes within {READ_SECONDS:.0f} s",
        ) from None
    if len(body) < length:
        raise OpenAIError(
            HTTPStatus.BAD_REQUEST, f"the body: got {len(body)} bytes, expected {length}"
        )
    return body


def make_gone_check(connection: socket.socket) -> Callable[[], bool]:
    """A function that says whether the client has closed the connection."""
    poll = select.poll()
    poll.register(connection, select.POLLIN)

    def look() -> bool:
        try:
            return bool(poll.poll(0)) and connection.recv(1, socket.MSG_PEEK) == b""
        except OSError:
            return True

    return look


def wait_for(events: SimpleQueue[Event], is_gone: Callable[[], bool], until: float) -> Event:
    """The next event, or ClientGone, or OpenAIError when the clock passes `until`."""
    while time.monotonic() <= until:
        try:
            return events.get(timeout=LOOK_SECONDS)
        except Empty:
            if is_gone():
                raise ClientGone from None
    raise OpenAIError(
        HTTPStatus.GATEWAY_TIMEOUT, f"the answer took longer than {ANSWER_SECONDS:.0f} s"
    )


def discard(connection: socket.socket) -> None:
    """Read what a refused client still sends, for a moment, so that it reads the refusal."""
    until = time.monotonic() + _LINGER_SECONDS
    try:
        connection.shutdown(socket.SHUT_WR)
        taken = 0
        while taken < _DISCARDED and (left := until - time.monotonic()) > 0:
            connection.settimeout(left)
            data = connection.recv(2**16)
            if not data:
                return
            taken += len(data)
    except OSError:
        return
