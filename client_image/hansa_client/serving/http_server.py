"""The HTTP server: a thread a connection, as many as there may be, and an orderly end."""

from __future__ import annotations

import hmac
import socket
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from hansa.core.errors import InputError
from hansa.core.logs import Log

MOST_CONNECTIONS = 512
"""At a time; others are closed at once."""


class HttpServer(ThreadingHTTPServer):
    """Connections, and what all of them share."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self,
        address: tuple[str, int],
        handler: type[BaseHTTPRequestHandler],
        api_key: str,
        log: Log,
    ) -> None:
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        self.log = log
        self.is_draining = False
        self._key = api_key.encode()
        self._room = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._busy = 0
        self._changed = threading.Condition()
        try:
            super().__init__(address, handler)
        except OSError as error:
            raise InputError(
                f"--host, --port: got {address[0]}:{address[1]} ({error.strerror}), "
                "expected an address of this machine and a free port"
            ) from None

    @property
    def url(self) -> str:
        """Where clients reach it."""
        host, port = self.server_address[:2]
        name = host.decode() if isinstance(host, bytes | bytearray) else str(host)
        return f"http://{f'[{name}]' if ':' in name else name}:{port}"

    def server_bind(self) -> None:
        """Bind, without asking DNS for this machine's name."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        """A thread for a connection, if there is room for one more."""
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """One connection, whatever comes of it."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that broke is no news; all else is."""
        self.log.warning("connection_failed", traceback=traceback.format_exc())

    def is_allowed(self, authorization: str) -> bool:
        """Whether a request carries the key, compared in a time that tells nothing of it."""
        given = authorization.encode("utf-8", "surrogateescape")
        return not self._key or hmac.compare_digest(given, b"Bearer " + self._key)

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Within, a request is answered, and `drain` waits for it."""
        with self._changed:
            self._busy += 1
        try:
            yield
        finally:
            with self._changed:
                self._busy -= 1
                self._changed.notify_all()

    def drain(self, seconds: float) -> bool:
        """Let requests under way end, and take no others; whether all did in time."""
        self.is_draining = True
        self.shutdown()
        self.socket.close()
        with self._changed:
            return self._changed.wait_for(lambda: not self._busy, timeout=seconds)
