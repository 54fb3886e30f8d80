"""One connection: paths, keys and errors of an OpenAI-compatible API."""

import io
import json
import time
import traceback
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST

from hansa_client.serving import wire
from hansa_client.serving.documents import Document
from hansa_client.serving.errors import ClientGone, OpenAIError, make_shutdown_error
from hansa_client.serving.local_users import is_of_another_user
from hansa_client.serving.server import Answering, ChatServer

_JSON = "application/json"
_CHAT = "/v1/chat/completions"
_MODELS = "/v1/models"
_GET = (_MODELS, "/health", "/metrics")
_LOAD, _UNLOAD = "/v1/load_lora_adapter", "/v1/unload_lora_adapter"
_POST = (_CHAT, _LOAD, _UNLOAD)
_STARTED = int(time.time())


class ChatHandler(BaseHTTPRequestHandler):
    """Reads requests one after another; an error in one is its answer, and reaches no other."""

    protocol_version = "HTTP/1.1"
    server_version = "hansa"
    sys_version = ""
    timeout = wire.WRITE_SECONDS
    disable_nagle_algorithm = True  # or a body would wait for the ACK of its headers
    server: ChatServer

    def setup(self) -> None:
        """Read with deadlines."""
        super().setup()
        self._reader = wire.TimedReader(self.connection, self.server.is_crowded)
        self.rfile = io.BufferedReader(self._reader)
        self._status = 0
        self._is_foreign = self.server.is_personal and is_of_another_user(self.connection)

    def handle_one_request(self) -> None:
        """The next request, if one comes in time."""
        self._reader.restart()
        self._status = 0
        self.requestline = ""
        try:
            super().handle_one_request()
        except wire.HeadTooLong:
            self._refuse(
                OpenAIError(
                    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
                    f"the headers: got more than {wire.MOST_HEAD_BYTES} bytes, expected fewer",
                )
            )

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Errors of http.server itself, in the shape of the API."""
        status = HTTPStatus.METHOD_NOT_ALLOWED if code == HTTPStatus.NOT_IMPLEMENTED else code
        self._refuse(
            OpenAIError(status, f"the request: {(message or HTTPStatus(status).phrase)[:200]}")
        )

    def log_message(self, format: str, *args: object) -> None:
        """Requests are counted and never logged: their content is private."""

    def do_GET(self) -> None:
        """Models, health and metrics."""
        self._answer(self._get)

    def do_POST(self) -> None:
        """Chat completions, and changes of adapters."""
        self._answer(self._post)

    # -- requests ----------------------------------------------------------------------------------

    def _count_request(self) -> None:
        known = self._path if self._path in (*_GET, *_POST) else "other"
        self.server.completions.metrics.requests.labels(known, str(self._status or "gone")).inc()

    def _get(self) -> None:
        if self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # its body is not read
        path = self._path
        if path == "/health":
            self._send_health()
        elif path == "/metrics":
            exposition = self.server.completions.metrics.format_exposition()
            self._send(HTTPStatus.OK, exposition, CONTENT_TYPE_LATEST)
        elif path in _POST:
            raise OpenAIError(HTTPStatus.METHOD_NOT_ALLOWED, f"{path}: got GET, expected POST")
        elif path == _MODELS or path.startswith(f"{_MODELS}/"):
            self._check_key()
            self._send_models(path.removeprefix(_MODELS).removeprefix("/"))
        else:
            raise self._make_unknown_error()

    def _post(self) -> None:
        self._check_key()
        if self._path in _GET:
            raise OpenAIError(
                HTTPStatus.METHOD_NOT_ALLOWED, f"{self._path}: got POST, expected GET"
            )
        if self._path not in _POST:
            raise self._make_unknown_error()
        body = self._read_json()
        if self._path != _CHAT:
            is_unloaded = self._path == _UNLOAD
            name = self.server.completions.change_adapters(body, is_unloaded=is_unloaded)
            self._send_json(HTTPStatus.OK, {"lora_name": name})
            return
        request = self.server.completions.parse(body)
        completion = self.server.completions.begin(request)
        try:
            if request.stream:
                self._stream(completion)
            else:
                self._send_json(
                    HTTPStatus.OK, completion.make_document(wire.make_gone_check(self.connection))
                )
        except BaseException:
            completion.cancel()
            raise

    def _make_unknown_error(self) -> OpenAIError:
        known = ", ".join((_CHAT, *_GET))
        return OpenAIError(HTTPStatus.NOT_FOUND, f"got another path, expected one of {known}")

    @property
    def _path(self) -> str:
        return self.path.partition("?")[0]

    def _answer(self, answer: Callable[[], None]) -> None:
        """Answer, or send the error; nothing that one request does affects another."""
        with self.server.count_busy():
            try:
                self._check_origin()
                answer()
            except OpenAIError as error:
                self._refuse(error)
            except (ClientGone, ConnectionError, TimeoutError):
                self.close_connection = True
            except Exception:
                self.server.log.error("request_failed", traceback=traceback.format_exc())
                self._refuse(OpenAIError(500, "the server failed, see its log"))
        self._count_request()

    def _read_json(self) -> bytes:
        """The body of a request with a JSON content type, unless the server is shutting down."""
        # A page in a browser cannot send this type across origins without a CORS preflight.
        if self.headers.get_content_type() != _JSON:
            raise OpenAIError(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"Content-Type: got another, expected {_JSON}"
            )
        self._reader.take_body()
        body = wire.read_body(self.headers, self.rfile)
        if self.server.is_draining:
            self.close_connection = True
            raise make_shutdown_error()
        return body

    def _check_origin(self) -> None:
        """Without a key, refuse what pages in a browser and other users of this machine ask for."""
        if self._is_foreign:
            raise OpenAIError(
                HTTPStatus.FORBIDDEN,
                "the connection: got one of another user of this machine, expected one of the "
                "server's own; one with a key (--api-key-file) answers whoever has it",
            )
        host, origin = self.headers.get("Host", "localhost"), self.headers.get("Origin")
        is_own = origin in (None, f"http://{host}", f"https://{host}")
        if self.server.has_key or (is_own and self.server.is_named(host)):
            return
        came = f"Host: got {host[:80]}" if is_own else f"Origin: got {str(origin)[:80]}"
        raise OpenAIError(
            HTTPStatus.FORBIDDEN,
            f"{came}, expected the address of this server; one with a key (--api-key-file) takes "
            "any name",
        )

    def _check_key(self) -> None:
        if not self.server.is_allowed(self.headers.get("Authorization", "")):
            raise OpenAIError(
                HTTPStatus.UNAUTHORIZED,
                "Authorization: got no key or a wrong one, expected Bearer and the server's key",
                code="invalid_api_key",
            )

    # -- answers -----------------------------------------------------------------------------------

    def _send_health(self) -> None:
        is_well = self.server.completions.is_alive and not self.server.is_draining
        status = HTTPStatus.OK if is_well else HTTPStatus.SERVICE_UNAVAILABLE
        self._send_json(status, {"status": "ok" if is_well else "ending"})

    def _send_models(self, name: str) -> None:
        if name:
            self.server.completions.check(name)
            self._send_json(HTTPStatus.OK, self._describe_model(name))
            return
        listed = [self._describe_model(each) for each in self.server.completions.names]
        self._send_json(HTTPStatus.OK, {"object": "list", "data": listed})

    def _describe_model(self, name: str) -> Document:
        """A model, and the digest of its adapter: a name alone proves nothing."""
        about = {"id": name, "object": "model", "created": _STARTED, "owned_by": "hansa"}
        digest = self.server.completions.digest(name)
        return {**about, "adapter_sha256": digest} if digest else about

    def _stream(self, completion: Answering) -> None:
        """Server-sent events; the connection ends with them, so that they need no length."""
        self.close_connection = True
        self._send_head(
            HTTPStatus.OK, "text/event-stream; charset=utf-8", {"Cache-Control": "no-cache"}
        )
        is_gone = wire.make_gone_check(self.connection)
        try:
            for chunk in completion.make_chunks(is_gone):
                self._send_event(json.dumps(chunk))
                if is_gone():
                    raise ClientGone
        except OpenAIError as error:  # the status line is sent already: an event carries the error
            completion.cancel()
            self._send_event(json.dumps(error.to_document()))
            return
        self._send_event("[DONE]")

    def _send_event(self, data: str) -> None:
        self.wfile.write(f"data: {data}\n\n".encode())

    def _refuse(self, error: OpenAIError) -> None:
        """Send the error, and close: what the client still sends is no next request."""
        self.close_connection = True
        if self._status:  # half an answer is sent, and nothing can follow it
            return
        try:
            self._send_json(error.status, error.to_document())
            wire.discard(self.connection)
        except OSError:
            return

    def _send_json(self, status: int, document: dict[str, Any]) -> None:
        self._send(status, json.dumps(document, allow_nan=False).encode(), _JSON)

    def _send(self, status: int, body: bytes, kind: str) -> None:
        self._send_head(status, kind, {"Content-Length": str(len(body))})
        self.wfile.write(body)

    def _send_head(self, status: int, kind: str, more: dict[str, str]) -> None:
        self._status = status
        # Without it a request line that names no version would get no headers.
        self.request_version = self.protocol_version
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
