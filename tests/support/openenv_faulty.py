"""A server that speaks as OpenEnv's do over a real WebSocket, and misbehaves when told to."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from ssl import SSLContext
from typing import Any

from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.sync.server import Server, ServerConnection, serve


class Faulty:
    """Counts to three; `fail` makes it misbehave at the next messages of a kind."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.faults: dict[str, deque[str]] = {"open": deque()}
        self.open: set[ServerConnection] = set()
        self.sessions = 0
        self.url = ""

    def fail(self, kind: str, *how: str) -> None:
        self.faults[kind] = deque(how)

    def hang_up(self) -> None:
        """End all connections, as a process does that dies."""
        for connection in list(self.open):
            connection.close_socket()

    def answer_open(self, connection: ServerConnection, request: Request) -> Response | None:
        if request.path != "/ws":
            return connection.respond(HTTPStatus.NOT_FOUND, "")
        how = self.faults["open"].popleft() if self.faults["open"] else ""
        if how.startswith("redirect"):
            headers = Headers(Location=how.partition(" ")[2])
            return Response(302, "Found", headers)
        return connection.respond(HTTPStatus(int(how)), "") if how else None

    def play(self, connection: ServerConnection) -> None:
        self.sessions += 1
        self.open.add(connection)
        turns = 0
        with suppress(ConnectionClosed):
            for message in connection:
                asked = json.loads(message)
                self.messages.append(asked)
                kind = asked["type"]
                turns = 0 if kind == "reset" else turns + (kind == "step")
                faults = self.faults.get(kind)
                how = faults.popleft() if faults else ""
                if kind == "close" or not self._answer(connection, how, kind, turns):
                    break
        self.open.discard(connection)

    def _answer(self, connection: ServerConnection, how: str, kind: str, turns: int) -> bool:
        word, _, detail = how.partition(" ")
        if word == "drop":
            connection.close_socket()
            return False
        if word == "slow":
            time.sleep(float(detail))
        if word == "huge":
            connection.send('"' + "x" * (3 << 20) + '"')
        elif word == "drip":
            with suppress(ConnectionClosed):
                connection.send(self._drip(float(detail)))
        elif word == "raw":
            connection.send(detail)
        elif kind == "state":
            connection.send(json.dumps({"type": "state", "data": {"step_count": turns}}))
        else:
            data = {"observation": {"text": f"turn {turns}"}, "reward": None, "done": turns == 3}
            connection.send(json.dumps({"type": "observation", "data": data}))
        return True

    def _drip(self, seconds: float) -> Iterator[str]:
        for _ in range(int(seconds / 0.05)):
            yield " "
            time.sleep(0.05)


@contextmanager
def serving(port: int = 0, ssl: SSLContext | None = None) -> Iterator[Faulty]:
    """A server that runs while the block does."""
    faulty = Faulty()
    server: Server = serve(
        faulty.play, "127.0.0.1", port, ssl=ssl, process_request=faulty.answer_open, max_size=None
    )
    faulty.url = f"http{'s' if ssl else ''}://127.0.0.1:{server.socket.getsockname()[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield faulty
    finally:
        server.shutdown()
        faulty.hang_up()
        thread.join(5)
