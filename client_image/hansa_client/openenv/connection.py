"""A WebSocket inside a connection of the HTTP server: text messages, one at a time."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Iterator
from email.message import Message

from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol

from hansa_client.serving import wire

LOOK_SECONDS = 1.0
"""Between two looks at whether the server is about to end."""
PING_SECONDS = 20.0
SILENT_SECONDS = 60.0
"""A client that answers no ping for as long is gone."""
IDLE_SECONDS = 3600.0
"""How long a client may wait with its next message."""
_DATA = (Opcode.TEXT, Opcode.BINARY, Opcode.CONT)
_SILENT = logging.getLogger("hansa.openenv.silent")
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False  # what strangers send is not written down


class Connection:
    """The server's end of one WebSocket, after the request that asks for it has been read."""

    def __init__(self, connection: socket.socket, is_over: Callable[[], bool]) -> None:
        self._connection = connection
        self._is_over = is_over
        self._protocol = ServerProtocol(max_size=wire.MOST_BYTES, logger=_SILENT)

    def accept(self, path: str, headers: Message) -> bool:
        """Answer the request; False where it asks for no WebSocket, which the client is told."""
        lines = [f"{name}: {' '.join(value.split())}" for name, value in headers.items()]
        head = "\r\n".join((f"GET {path} HTTP/1.1", *lines, "", ""))
        self._protocol.receive_data(head.encode("latin-1", "replace"))
        events = self._protocol.events_received()
        if events and isinstance(events[0], Request):
            self._protocol.send_response(self._protocol.accept(events[0]))
        self._flush()
        return self._protocol.state is State.OPEN

    def messages(self) -> Iterator[str]:
        """Each text that comes, until either side ends it."""
        text = bytearray()
        last_data = last_ping = last_message = time.monotonic()
        while self._protocol.state is State.OPEN:
            data = self._receive()
            now = time.monotonic()
            if data is not None:
                if not data:
                    return
                last_data = now
                self._protocol.receive_data(data)
                for event in self._protocol.events_received():
                    if not isinstance(event, Frame) or event.opcode not in _DATA:
                        continue
                    text += event.data
                    if event.fin:
                        self._flush()
                        message, text = text.decode("utf-8", "replace"), bytearray()
                        last_message = now
                        yield message
            silent, idle = now - last_data > SILENT_SECONDS, now - last_message > IDLE_SECONDS
            if self._protocol.state is State.OPEN and (silent or idle or self._is_over()):
                self._protocol.send_close(CloseCode.GOING_AWAY)
            elif self._protocol.state is State.OPEN and now - last_ping > PING_SECONDS:
                last_ping = now
                self._protocol.send_ping(b"")
            self._flush()

    def send(self, text: str) -> None:
        """One message."""
        if self._protocol.state is State.OPEN:
            self._protocol.send_text(text.encode())
            self._flush()

    def close(self) -> None:
        """Say that it is over."""
        if self._protocol.state is State.OPEN:
            self._protocol.send_close(CloseCode.NORMAL_CLOSURE)
            self._flush()

    def _receive(self) -> bytes | None:
        """What has come, b"" at the end, None where nothing has."""
        self._connection.settimeout(LOOK_SECONDS)
        try:
            return self._connection.recv(1 << 16)
        except TimeoutError:
            return None

    def _flush(self) -> None:
        self._connection.settimeout(wire.WRITE_SECONDS)
        for data in self._protocol.data_to_send():
            if data:
                self._connection.sendall(data)
