"""The server of adapters: connections, and who answers their requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler
from typing import Protocol

from hansa.core.logs import Log
from hansa_client.serving.chat_request import ChatRequest
from hansa_client.serving.documents import Document
from hansa_client.serving.http_server import HttpServer
from hansa_client.serving.metrics import Metrics


class Answering(Protocol):
    """A request under way."""

    def whole(self, is_gone: Callable[[], bool]) -> Document:
        """All answers in one document."""

    def chunks(self, is_gone: Callable[[], bool]) -> Iterator[Document]:
        """The answers piece by piece."""

    def cancel(self) -> None:
        """Nobody waits for it any more."""


class Service(Protocol):
    """Whoever answers requests."""

    metrics: Metrics
    """What is counted."""

    @property
    def names(self) -> Sequence[str]:
        """Models that there are."""

    @property
    def is_alive(self) -> bool:
        """Whether requests are answered."""

    def check(self, name: str) -> None:
        """Raise ApiError where there is no such model."""

    def digest(self, name: str) -> str:
        """Digest of the adapter that a model is; empty: it is the base, or nobody's affair."""

    def change_adapters(self, body: bytes, *, is_unloaded: bool) -> str:
        """Load the adapter that a body names, or forget it; its name."""

    def parse(self, body: bytes) -> ChatRequest:
        """The request in a body."""

    def begin(self, request: ChatRequest) -> Answering:
        """Have a request answered."""


class ChatServer(HttpServer):
    """Connections, and what all of them share."""

    def __init__(
        self,
        address: tuple[str, int],
        handler: type[BaseHTTPRequestHandler],
        completions: Service,
        api_key: str,
        log: Log,
    ) -> None:
        self.completions = completions
        super().__init__(address, handler, api_key, log)
