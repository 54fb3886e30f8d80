"""Servers that speak as AgentGym's do, over real HTTP, and misbehave when told to."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.support.agentgym_games import GAMES, Body, Invalid, Missing


class GymServer(ThreadingHTTPServer):
    """One environment server; `fail` makes it misbehave at the next requests to a path."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, environment: str, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.environment = environment
        self.requests: list[tuple[str, str, Body]] = []
        self.connections = 0
        self.at_once = self.most_at_once = 0
        self.open: set[socket.socket] = set()
        self.faults: dict[str, deque[str]] = {}
        self.forget()

    def forget(self) -> None:
        """Lose every session, as a restart does."""
        self.games = [kind() for kind in GAMES[self.environment]]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def fail(self, path: str, *how: str) -> None:
        """At the next requests to the path: see _Handler._misbehave."""
        self.faults[path] = deque(how)

    def hang_up(self) -> None:
        """End the connections that are kept open, as a process does that dies."""
        for connection in list(self.open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def paths(self) -> list[str]:
        return [path for _, path, _ in self.requests]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A peer that hangs up is what the tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: GymServer

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1
        self.server.open.add(self.connection)

    def finish(self) -> None:
        self.server.open.discard(self.connection)
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        query = dict(parse_qsl(urlsplit(self.path).query))
        self._answer("GET", query)

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            body = json.loads(text) if text else None
            json.dumps(body, ensure_ascii=False).encode()  # pydantic refuses lone surrogates
        except ValueError:
            body = None
        self._answer("POST", body)

    def _answer(self, method: str, body: Any) -> None:
        path = urlsplit(self.path).path
        self.server.requests.append((method, path, body))
        waiting = self.server.faults.get(path)
        self.server.at_once += 1
        self.server.most_at_once = max(self.server.most_at_once, self.server.at_once)
        wrong = bool(waiting) and self._misbehave(waiting.popleft())
        self.server.at_once -= 1
        if wrong:
            return
        if path == "/":
            self._send(200, "ok")
        elif not isinstance(body, dict):
            self._send(422, {"detail": "body"})
        else:
            self._send(*self._play(method, path, body))

    def _play(self, method: str, path: str, body: Body) -> tuple[int, Any]:
        for game in self.server.games:
            if path.startswith(game.prefix + "/"):
                try:
                    return 200, game.handle(method, path[len(game.prefix) :], body)
                except Invalid as error:
                    return 422, {"detail": str(error)}
                except Missing:
                    break
                except Exception as error:
                    return 500, {"detail": str(error)}
        return 404, {"detail": "Not Found"}

    def _misbehave(self, how: str) -> bool:
        word, _, detail = how.partition(" ")
        if word == "drop":
            self.close_connection = True
        elif word == "half":
            self._raw(b'{"observation": "al', length=5000)
        elif word == "drip":
            self._drip(float(detail))
        elif word == "slow":
            time.sleep(float(detail))
            return False
        elif word == "huge":
            self._raw(b'{"observation": "' + b"x" * (3 << 20) + b'"}')
        elif word == "redirect":
            self._send(302, {}, Location=detail)
        elif word == "status":
            self._send(int(detail), {"detail": "?"})
        elif word == "raw":
            self._raw(detail.encode())
        return word != "no"

    def _drip(self, seconds: float) -> None:
        self._head(200, 1000)
        for _ in range(int(seconds / 0.05)):
            self.wfile.write(b" ")
            self.wfile.flush()
            time.sleep(0.05)
        self.close_connection = True

    def _send(self, status: int, answer: Any, **headers: str) -> None:
        self._raw(json.dumps(answer).encode(), status, **headers)

    def _raw(
        self, data: bytes, status: int = 200, length: int | None = None, **headers: str
    ) -> None:
        self._head(status, len(data) if length is None else length, **headers)
        self.wfile.write(data)
        self.close_connection = self.close_connection or length is not None

    def _head(self, status: int, length: int, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()


@contextmanager
def serving(environment: str, port: int = 0) -> Iterator[GymServer]:
    """A server that runs while the block does."""
    server = GymServer(environment, port)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        server.hang_up()
        thread.join(5)
