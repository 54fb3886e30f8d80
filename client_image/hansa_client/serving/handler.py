"""One connection: paths, keys and errors of an OpenAI-compatible API."""

from __future__ import annotations

import json
import time
from http import HTTPStatus

from prometheus_client import CONTENT_TYPE_LATEST

from hansa_client.serving import wire
from hansa_client.serving.documents import Document
from hansa_client.serving.errors import ClientGone, OpenAIError
from hansa_client.serving.http_handler import HttpHandler
from hansa_client.serving.server import Answering, ChatServer

_CHAT = "/v1/chat/completions"
_MODELS = "/v1/models"
_GET = (_MODELS, "/health", "/metrics")
_LOAD, _UNLOAD = "/v1/load_lora_adapter", "/v1/unload_lora_adapter"
_POST = (_CHAT, _LOAD, _UNLOAD)
_STARTED = int(time.time())


class ChatHandler(HttpHandler):
    """Chat completions, and what there is to look at."""

    server: ChatServer

    def do_GET(self) -> None:
        """What there is to look at."""
        self._guarded(self._get)

    def do_POST(self) -> None:
        """Completions."""
        self._guarded(self._post)

    # -- requests ----------------------------------------------------------------------------------

    def _count(self) -> None:
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
            raise OpenAIError(HTTPStatus.METHOD_NOT_ALLOWED, f"{path}: got GET, expected POST")
        elif path == _MODELS or path.startswith(f"{_MODELS}/"):
            self._check_key()
            self._models(path.removeprefix(_MODELS).removeprefix("/"))
        else:
            raise self._unknown()

    def _post(self) -> None:
        self._check_key()
        if self._path in _GET:
            raise OpenAIError(
                HTTPStatus.METHOD_NOT_ALLOWED, f"{self._path}: got POST, expected GET"
            )
        if self._path not in _POST:
            raise self._unknown()
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
                self._send_json(HTTPStatus.OK, completion.whole(wire.is_gone(self.connection)))
        except BaseException:
            completion.cancel()
            raise

    def _unknown(self) -> OpenAIError:
        known = ", ".join((_CHAT, *_GET))
        return OpenAIError(HTTPStatus.NOT_FOUND, f"got another path, expected one of {known}")

    # -- answers -----------------------------------------------------------------------------------

    def _health(self) -> None:
        is_well = self.server.completions.is_alive and not self.server.is_draining
        status = HTTPStatus.OK if is_well else HTTPStatus.SERVICE_UNAVAILABLE
        self._send_json(status, {"status": "ok" if is_well else "ending"})

    def _models(self, name: str) -> None:
        if name:
            self.server.completions.check(name)
            self._send_json(HTTPStatus.OK, self._model(name))
            return
        listed = [self._model(each) for each in self.server.completions.names]
        self._send_json(HTTPStatus.OK, {"object": "list", "data": listed})

    def _model(self, name: str) -> Document:
        """A model, and which adapter it is: the name alone could be anything's."""
        about = {"id": name, "object": "model", "created": _STARTED, "owned_by": "hansa"}
        digest = self.server.completions.digest(name)
        return {**about, "adapter_sha256": digest} if digest else about

    def _stream(self, completion: Answering) -> None:
        """Server-sent events; the connection ends with them, so that they need no length."""
        self.close_connection = True
        self._head(HTTPStatus.OK, "text/event-stream; charset=utf-8", {"Cache-Control": "no-cache"})
        is_gone = wire.is_gone(self.connection)
        try:
            for chunk in completion.chunks(is_gone):
                self._event(json.dumps(chunk))
                if is_gone():
                    raise ClientGone
        except OpenAIError as error:  # the status is sent: an event has to say it
            completion.cancel()
            self._event(json.dumps(error.document()))
            return
        self._event("[DONE]")

    def _event(self, data: str) -> None:
        self.wfile.write(f"data: {data}\n\n".encode())
