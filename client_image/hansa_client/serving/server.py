"""The HTTP server of chat completions: a bounded number of threads, and an orderly shutdown."""

import hmac
import ipaddress
import socket
import threading
import traceback
import urllib.parse
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

from hansa.core.errors import InputError
from hansa.core.logs import Log
from hansa_client.serving import chat_request
from hansa_client.serving.chat_request import ChatRequest
from hansa_client.serving.documents import Document
from hansa_client.serving.errors import OpenAIError, make_unknown_model_error
from hansa_client.serving.metrics import Metrics

MOST_CONNECTIONS = 512
"""At a time; others are closed at once."""


class Answering(Protocol):
    """A request under way."""

    def make_document(self, is_gone: Callable[[], bool]) -> Document:
        """All answers in one document."""

    def make_chunks(self, is_gone: Callable[[], bool]) -> Iterator[Document]:
        """The answers piece by piece."""

    def cancel(self) -> None:
        """Stop: the client has disconnected."""


class Service(ABC):
    """What answers requests; by itself it can neither load nor unload adapters."""

    metrics: Metrics
    """What is counted."""

    @property
    @abstractmethod
    def names(self) -> Sequence[str]:
        """Names of the served models."""

    @property
    def is_alive(self) -> bool:
        """Whether requests are answered."""
        return True

    def check(self, name: str) -> None:
        """Raise OpenAIError where there is no such model."""
        if name not in self.names:
            raise make_unknown_model_error(name, self.names)

    def digest(self, name: str) -> str:
        """Digest of a model's adapter; empty where it has none, or does not tell."""
        return ""

    def change_adapters(self, body: bytes, *, is_unloaded: bool) -> str:
        """Load or unload the adapter that a body names; its name."""
        raise OpenAIError(
            HTTPStatus.NOT_FOUND, "got another path, expected that of chat completions"
        )

    def parse(self, body: bytes) -> ChatRequest:
        """The request in a body."""
        return chat_request.parse(body)

    @abstractmethod
    def begin(self, request: ChatRequest) -> Answering:
        """Start answering a request."""


def check_address(address: tuple[str, int]) -> None:
    """Refuse an address that cannot be listened on, before a model is loaded for it."""
    with _explain_bind(address), socket.socket(_choose_family(address)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(address)


def _choose_family(address: tuple[str, int]) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address[0] else socket.AF_INET


@contextmanager
def _explain_bind(address: tuple[str, int]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(
            f"--host, --port: got {address[0]}:{address[1]} ({error.strerror}), "
            "expected an address of this machine and a free port"
        ) from None


class ChatServer(ThreadingHTTPServer):
    """One thread per connection, and what all of them share."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self,
        address: tuple[str, int],
        handler: type[BaseHTTPRequestHandler],
        completions: Service,
        api_key: str,
        log: Log,
    ) -> None:
        self.completions = completions
        self.address_family = _choose_family(address)
        self.log = log
        self.is_draining = False
        self._key = api_key.encode()
        self._host = address[0]
        self._room = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._busy = 0
        self._changed = threading.Condition()
        with _explain_bind(address):
            super().__init__(address, handler)

    @property
    def url(self) -> str:
        """Where clients reach it."""
        host, port = self.server_address[:2]
        name = host.decode() if isinstance(host, bytes | bytearray) else str(host)
        return f"http://{f'[{name}]' if ':' in name else name}:{port}"

    def server_bind(self) -> None:
        """Bind, without a DNS lookup of this machine's name."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for a connection, unless there are too many."""
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """One connection; its permit is released even when it fails."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def is_crowded(self) -> bool:
        """Whether few connections are left: then idle ones are closed soon."""
        return threading.active_count() > MOST_CONNECTIONS * 3 // 4

    @property
    def has_key(self) -> bool:
        """Whether requests must carry a key."""
        return bool(self._key)

    @property
    def is_personal(self) -> bool:
        """Whether it is for its own user alone: without a key, and on loopback."""
        address = ipaddress.ip_address(str(self.server_address[0]))
        return not self._key and address.is_loopback

    def is_named(self, host: str) -> bool:
        """Whether a Host header is an address, `localhost` or the name that it listens on: any
        other name can be made to mean this machine by whoever owns it."""
        with suppress(ValueError):
            name = urllib.parse.urlsplit(f"//{host}").hostname or ""
            return name in ("localhost", self._host) or bool(ipaddress.ip_address(name))
        return False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log a connection that failed outside of a request."""
        self.log.warning("connection_failed", traceback=traceback.format_exc())

    def is_allowed(self, authorization: str) -> bool:
        """Whether a request carries the key, compared in constant time."""
        given = authorization.encode("utf-8", "surrogateescape")
        return not self._key or hmac.compare_digest(given, b"Bearer " + self._key)

    @contextmanager
    def count_busy(self) -> Iterator[None]:
        """Within, a request is under way, and `drain` waits for it."""
        with self._changed:
            self._busy += 1
        try:
            yield
        finally:
            with self._changed:
                self._busy -= 1
                self._changed.notify_all()

    def drain(self, seconds: float) -> bool:
        """Stop accepting requests, and wait for those under way; whether all ended in time."""
        self.is_draining = True
        self.shutdown()
        self.socket.close()
        with self._changed:
            return self._changed.wait_for(lambda: not self._busy, timeout=seconds)
