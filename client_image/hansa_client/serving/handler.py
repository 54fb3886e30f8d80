"""One connection: paths, keys and errors of an OpenAI-compatible API."""

from __future__ import annotations

import io
import json
import time
import traceback
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST

from hansa_client.serving import adapter_request, chat_request, wire
from hansa_client.serving.completions import ClientGone, Completion
from hansa_client.serving.errors import ApiError
from hansa_client.serving.server import Server

_JSON = "application/json"
_CHAT = "/v1/chat/completions"
_MODELS = "/v1/models"
_GET = (_MODELS, "/health", "/metrics")
_LOAD, _UNLOAD = "/v1/load_lora_adapter", "/v1/unload_lora_adapter"
_POST = (_CHAT, _LOAD, _UNLOAD)
_STARTED = int(time.time())


class Handler(BaseHTTPRequestHandler):
    """Reads requests one after another; whatever goes wrong with one is its answer."""

    protocol_version = "HTTP/1.1"
    server_version = "hansa"
    sys_version = ""
    timeout = wire.WRITE_SECONDS
    disable_nagle_algorithm = True  # a body would wait for who has read its head
    server: Server

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

    def do_GET(self) -> None:
        """What there is to look at."""
        self._guarded(self._get)

    def do_POST(self) -> None:
        """Completions."""
        self._guarded(self._post)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the library refuses by itself, in the API's shape."""
        status = HTTPStatus.METHOD_NOT_ALLOWED if code == HTTPStatus.NOT_IMPLEMENTED else code
        self._refuse(
            ApiError(status, f"the request: {(message or HTTPStatus(status).phrase)[:200]}")
        )

    def log_message(self, format: str, *args: object) -> None:
        """Requests are counted, and never written down: what is in them is their senders' own."""

    # -- requests ----------------------------------------------------------------------------------

    @property
    def _path(self) -> str:
        return self.path.partition("?")[0]

    def _guarded(self, answer: Callable[[], None]) -> None:
        """Answer, or say why not; nothing that one request does reaches another."""
        with self.server.busy():
            try:
                answer()
            except ApiError as error:
                self._refuse(error)
            except (ClientGone, ConnectionError, TimeoutError):
                self.close_connection = True
            except Exception:
                self.server.log.error("request_failed", traceback=traceback.format_exc())
                self._refuse(ApiError(500, "the server failed, see its log"))
        known = self._path if self._path in (*_GET, *_POST) else "other"
        self.server.completions.metrics.requests.labels(known, str(self._status or "gone")).inc()

    def _get(self) -> None:
        if self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # its body is not read
        path = self._path
        if path == "/health":
            self._health()
        elif path == "/metrics":
            exposition = self.server.completions.metrics.exposition()
            self._send(HTTPStatus.OK, exposition, CONTENT_TYPE_LATEST)
        elif path in _POST:
            raise ApiError(HTTPStatus.METHOD_NOT_ALLOWED, f"{path}: got GET, expected POST")
        elif path == _MODELS or path.startswith(f"{_MODELS}/"):
            self._check_key()
            self._models(path.removeprefix(_MODELS).removeprefix("/"))
        else:
            raise self._unknown()

    def _post(self) -> None:
        self._check_key()
        if self._path in _GET:
            raise ApiError(HTTPStatus.METHOD_NOT_ALLOWED, f"{self._path}: got POST, expected GET")
        if self._path not in _POST:
            raise self._unknown()
        # A page in somebody's browser cannot send this kind without asking first.
        if self.headers.get_content_type() != _JSON:
            raise ApiError(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"Content-Type: got another, expected {_JSON}"
            )
        body = wire.read_body(self.headers, self.rfile)
        if self.server.is_draining:
            self.close_connection = True
            raise ApiError(HTTPStatus.SERVICE_UNAVAILABLE, "the server is about to end")
        if self._path != _CHAT:
            self._change_adapters(body)
            return
        request = chat_request.parse(body)
        completion = self.server.completions.begin(request)
        try:
            if request.stream:
                self._stream(completion)
            else:
                self._send_json(HTTPStatus.OK, completion.whole(wire.is_gone(self.connection)))
        except BaseException:
            completion.cancel()
            raise

    def _change_adapters(self, body: bytes) -> None:
        """Load an adapter, or forget it."""
        change, catalogue = adapter_request.parse(body), self.server.completions.catalogue
        if self._path == _UNLOAD:
            catalogue.remove(change.name)
        else:
            catalogue.add(change.name, change.path)
        self._send_json(HTTPStatus.OK, {"lora_name": change.name})

    def _check_key(self) -> None:
        if not self.server.is_allowed(self.headers.get("Authorization", "")):
            raise ApiError(
                HTTPStatus.UNAUTHORIZED,
                "Authorization: got no key or a wrong one, expected Bearer and the server's key",
                code="invalid_api_key",
            )

    def _unknown(self) -> ApiError:
        known = ", ".join((_CHAT, *_GET))
        return ApiError(HTTPStatus.NOT_FOUND, f"got another path, expected one of {known}")

    # -- answers -----------------------------------------------------------------------------------

    def _health(self) -> None:
        is_well = self.server.completions.engine.is_alive and not self.server.is_draining
        status = HTTPStatus.OK if is_well else HTTPStatus.SERVICE_UNAVAILABLE
        self._send_json(status, {"status": "ok" if is_well else "ending"})

    def _models(self, name: str) -> None:
        catalogue = self.server.completions.catalogue
        if name:
            catalogue.check(name)
            self._send_json(HTTPStatus.OK, self._model(name))
            return
        listed = [self._model(each) for each in catalogue.names]
        self._send_json(HTTPStatus.OK, {"object": "list", "data": listed})

    def _model(self, name: str) -> dict[str, Any]:
        """A model, and which adapter it is: the name alone could be anything's."""
        about = {"id": name, "object": "model", "created": _STARTED, "owned_by": "hansa"}
        digest = self.server.completions.catalogue.digest(name)
        return {**about, "adapter_sha256": digest} if digest else about

    def _stream(self, completion: Completion) -> None:
        """Server-sent events; the connection ends with them, so that they need no length."""
        self.close_connection = True
        self._head(HTTPStatus.OK, "text/event-stream; charset=utf-8", {"Cache-Control": "no-cache"})
        is_gone = wire.is_gone(self.connection)
        try:
            for chunk in completion.chunks(is_gone):
                self._event(json.dumps(chunk))
                if is_gone():
                    raise ClientGone
        except ApiError as error:  # the status is sent: an event has to say it
            completion.cancel()
            self._event(json.dumps(error.document()))
            return
        self._event("[DONE]")

    def _event(self, data: str) -> None:
        self.wfile.write(f"data: {data}\n\n".encode())

    def _refuse(self, error: ApiError) -> None:
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
        self._send(status, json.dumps(document, allow_nan=False).encode(), _JSON)

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
