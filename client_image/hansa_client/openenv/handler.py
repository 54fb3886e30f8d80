"""One connection: the paths and messages of an OpenEnv server."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, urlsplit

from hansa_client.openenv import documents
from hansa_client.openenv.connection import Connection
from hansa_client.openenv.documents import Document, Refused, check_known, parse, text_in
from hansa_client.openenv.server import WorldServer
from hansa_client.openenv.sessions import Session
from hansa_client.serving.errors import ApiError
from hansa_client.serving.http_handler import HttpHandler

_GET = ("/health", "/metadata", "/openapi.json", "/schema", "/state", "/ws")
_POST = ("/mcp", "/reset", "/step")
_STATUS = {
    "CAPACITY_REACHED": HTTPStatus.SERVICE_UNAVAILABLE,
    "EXECUTION_ERROR": HTTPStatus.CONFLICT,
    "INVALID_JSON": HTTPStatus.BAD_REQUEST,
}


class Handler(HttpHandler):
    """Sessions by WebSocket, episodes by single requests, and what there is to look at."""

    server: WorldServer

    def do_GET(self) -> None:
        """What there is to look at, and the way to a session."""
        if self._path == "/ws":
            self._session()
        else:
            self._guarded(self._get)

    def do_POST(self) -> None:
        """An episode's next request."""
        self._guarded(self._post)

    def _document(self, error: ApiError) -> dict[str, Any]:
        return {"detail": error.message}

    # -- single requests ---------------------------------------------------------------------------

    def _get(self) -> None:
        if self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # its body is not read
        path = self._path
        if path == "/health":
            is_well = not self.server.is_draining
            status = HTTPStatus.OK if is_well else HTTPStatus.SERVICE_UNAVAILABLE
            self._send_json(status, {"status": "healthy" if is_well else "unhealthy"})
            return
        self._check_key()
        if path == "/metadata":
            self._send_json(HTTPStatus.OK, self.server.about)
        elif path == "/schema":
            self._send_json(HTTPStatus.OK, documents.schemas())
        elif path == "/openapi.json":
            self._send_json(HTTPStatus.OK, documents.openapi(self.server.sessions.name))
        elif path == "/state":
            episode = parse_qs(urlsplit(self.path).query).get("episode_id", [None])[0]
            self._play(episode, lambda session: session.state(), begins=False)
        else:
            raise self._unknown("GET")

    def _post(self) -> None:
        self._check_key()
        if self._path not in _POST:
            raise self._unknown("POST")
        body = self._read_json()
        if self._path == "/mcp":
            self._send_json(HTTPStatus.OK, documents.rpc_refusal(body))
            return
        try:
            given = parse(body or b"{}")
            episode = text_in(given, "episode_id", documents.LONGEST_ID)
            if self._path == "/step":
                check_known(given, ("action", "episode_id", "timeout_s", "request_id"))
                if "action" not in given:
                    raise documents.invalid("action", "missing", "got nothing, expected an object")
        except Refused as refused:
            raise _as_status(refused) from None
        if self._path == "/reset":
            self._play(episode, lambda session: session.reset(given), begins=True)
        else:
            self._play(episode, lambda session: session.step(given["action"]), begins=False)

    def _play(
        self, episode: str | None, play: Callable[[Session], Document], *, begins: bool
    ) -> None:
        try:
            single = self.server.sessions.single(episode, begins=begins)
            with single.lock:
                answer = play(single.session)
        except Refused as refused:
            raise _as_status(refused) from None
        self._send_json(HTTPStatus.OK, answer)

    def _unknown(self, method: str) -> ApiError:
        if self._path in (*_GET, *_POST):
            other = "GET" if self._path in _GET else "POST"
            return ApiError(
                HTTPStatus.METHOD_NOT_ALLOWED, f"{self._path}: got {method}, expected {other}"
            )
        known = ", ".join((*_GET, *_POST))
        return ApiError(HTTPStatus.NOT_FOUND, f"got another path, expected one of {known}")

    # -- sessions ----------------------------------------------------------------------------------

    def _session(self) -> None:
        """A WebSocket for as long as the client keeps it; drained between its messages."""
        connections: list[Connection] = []

        def accept() -> None:
            self._check_key()
            self._check_origin()
            if self.headers.get("Upgrade", "").lower() != "websocket":
                raise ApiError(HTTPStatus.UPGRADE_REQUIRED, "/ws: expected a WebSocket")
            self.close_connection = True
            connection = Connection(self.connection, lambda: self.server.is_draining)
            if connection.accept(self.path, self.headers):
                connections.append(connection)

        self._guarded(accept)
        for connection in connections:
            try:
                self._converse(connection)
            except (ConnectionError, TimeoutError):
                return
            except Exception:
                self.server.log.error("session_failed", traceback=traceback.format_exc())

    def _converse(self, connection: Connection) -> None:
        try:
            with self.server.sessions.open() as session:
                for message in connection.messages():
                    with self.server.busy():
                        answer = self._answered(session, message)
                        if answer is None:
                            break
                        connection.send(answer)
        except Refused as refused:
            connection.send(json.dumps(refused.document()))
        connection.close()

    def _answered(self, session: Session, message: str) -> str | None:
        """The answer to a message, None to the one that ends the session."""
        try:
            given = parse(message)
            check_known(given, ("type", "data"))
            answer = _answer(session, given.get("type"), given.get("data", {}))
            return None if answer is None else json.dumps(answer, allow_nan=False)
        except Refused as refused:
            return json.dumps(refused.document())
        except Exception:
            self.server.log.error("message_failed", traceback=traceback.format_exc())
            failed = Refused("EXECUTION_ERROR", "the server failed, see its log")
            return json.dumps(failed.document())

    def _check_origin(self) -> None:
        """A page in somebody's browser may open a WebSocket anywhere, and says from where."""
        origin = self.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc != self.headers.get("Host"):
            raise ApiError(HTTPStatus.FORBIDDEN, "Origin: got another site's")


def _answer(session: Session, kind: object, data: object) -> Document | None:
    if kind == "close":
        return None
    if kind == "state":
        return {"type": "state", "data": session.state()}
    if kind not in ("reset", "step"):
        raise Refused("UNKNOWN_TYPE", "type: expected reset or step or state or close")
    if not isinstance(data, dict):
        raise documents.invalid("data", "dict_type", "expected an object")
    turn = session.reset(data) if kind == "reset" else session.step(data)
    return {"type": "observation", "data": turn}


def _as_status(refused: Refused) -> ApiError:
    status = _STATUS.get(refused.code, HTTPStatus.UNPROCESSABLE_ENTITY)
    return ApiError(status, refused.message)
