"""The server of adapters: connections, and who answers their requests."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler

from hansa.logs import Log
from hansa_client.serving.completions import Completions
from hansa_client.serving.http_server import HttpServer


class Server(HttpServer):
    """Connections, and what all of them share."""

    def __init__(
        self,
        address: tuple[str, int],
        handler: type[BaseHTTPRequestHandler],
        completions: Completions,
        api_key: str,
        log: Log,
    ) -> None:
        self.completions = completions
        super().__init__(address, handler, api_key, log)
