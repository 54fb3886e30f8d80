"""One HTTP connection of `hansa serve`: deadlines, keys, and errors as answers."""

from __future__ import annotations

import io
import json
import traceback
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any

from hansa_client.serving import wire
from hansa_client.serving.errors import ClientGone, OpenAIError
from hansa_client.serving.http_server import HttpServer

JSON = "application/json"


class HttpHandler(BaseHTTPRequestHandler):
    """Reads requests one after another; whatever goes wrong with one is its answer."""

    protocol_version = "HTTP/1.1"
    server_version = "hansa"
    sys_version = ""
    timeout = wire.WRITE_SECONDS
    disable_nagle_algorithm = True  # a body would wait for who has read its head
    server: HttpServer

    def setup(self) -> None:
        """Read with deadlines."""
        super().setup()
        self._reader = wire.TimedReader(self.connection)
        self.rfile = io.BufferedReader(self._reader)
        self._status = 0

    def handle_one_request(self) -> None:
        """The next request, if one comes in time."""
        self._reader.restart()
        self._status = 0
        super().handle_one_request()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the library refuses by itself, in the API's shape."""
        status = HTTPStatus.METHOD_NOT_ALLOWED if code == HTTPStatus.NOT_IMPLEMENTED else code
        self._refuse(
            OpenAIError(status, f"the request: {(message or HTTPStatus(status).phrase)[:200]}")
        )

    def log_message(self, format: str, *args: object) -> None:
        """Requests are counted, and never written down: what is in them is their senders' own."""

    @property
    def _path(self) -> str:
        return self.path.partition("?")[0]

    def _guarded(self, answer: Callable[[], None]) -> None:
        """Answer, or say why not; nothing that one request does reaches another."""
        with self.server.busy():
            try:
                answer()
            except OpenAIError as error:
                self._refuse(error)
            except (ClientGone, ConnectionError, TimeoutError):
                self.close_connection = True
            except Exception:
                self.server.log.error("request_failed", traceback=traceback.format_exc())
                self._refuse(OpenAIError(500, "the server failed, see its log"))
        self._count()

    def _count(self) -> None:
        """After each request; `_status` is what it was answered with, 0 where nobody waited."""

    def _read_json(self) -> bytes:
        """The body of a request that says that it is JSON, unless the server is about to end."""
        # A page in somebody's browser cannot send this kind without asking first.
        if self.headers.get_content_type() != JSON:
            raise OpenAIError(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"Content-Type: got another, expected {JSON}"
            )
        body = wire.read_body(self.headers, self.rfile)
        if self.server.is_draining:
            self.close_connection = True
            raise OpenAIError(HTTPStatus.SERVICE_UNAVAILABLE, "the server is about to end")
        return body

    def _check_key(self) -> None:
        if not self.server.is_allowed(self.headers.get("Authorization", "")):
            raise OpenAIError(
                HTTPStatus.UNAUTHORIZED,
                "Authorization: got no key or a wrong one, expected Bearer and the server's key",
                code="invalid_api_key",
            )

    def _refuse(self, error: OpenAIError) -> None:
        """Say why; what a client may still be sending is not read as its next request."""
        self.close_connection = True
        if self._status:  # half an answer is sent, and nothing fits behind it
            return
        try:
            self._send_json(error.status, error.document())
            wire.discard(self.connection)
        except OSError:
            return

    def _send_json(self, status: int, document: dict[str, Any]) -> None:
        self._send(status, json.dumps(document, allow_nan=False).encode(), JSON)

    def _send(self, status: int, body: bytes, kind: str) -> None:
        self._head(status, kind, {"Content-Length": str(len(body))})
        self.wfile.write(body)

    def _head(self, status: int, kind: str, more: dict[str, str]) -> None:
        self._status = status
        self.request_version = self.protocol_version  # a line without one gets a head, too
        self.send_response(status)
        self.send_header("Content-Type", kind)
        for name, value in more.items():
            self.send_header(name, value)
        if status == HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", "Bearer")
        if status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
            self.send_header("Retry-After", "1")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
