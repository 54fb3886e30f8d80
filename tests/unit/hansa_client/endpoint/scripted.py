"""An endpoint that misbehaves by a script; all else it answers like a server of one adapter."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from typing import Any, NamedTuple

from tests.support.loopback import QuietHandler


class Reply(NamedTuple):
    """What is answered instead."""

    status: int = 200
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    hang_up: bool = False


def turn(text: str, reason: str | None = "stop") -> Reply:
    """A chat completion."""
    message = {"role": "assistant", "content": text}
    document = {"choices": [{"index": 0, "message": message, "finish_reason": reason}]}
    return Reply(body=json.dumps(document).encode())


class Endpoint:
    """What it was asked, and what it says."""

    def __init__(self, digest: str, script: Callable[[int, dict[str, Any]], Reply]) -> None:
        self.digest = digest
        self.script = script
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.url = ""
        self._lock = threading.Lock()

    def models(self) -> Reply:
        """One adapter."""
        entry = {"id": "policy", "object": "model", "adapter_sha256": self.digest}
        return Reply(body=json.dumps({"object": "list", "data": [entry]}).encode())

    def chat(self, body: dict[str, Any], key: str | None) -> Reply:
        """By the script, which is told how many requests came before."""
        with self._lock:
            place = len(self.asked)
            self.asked.append(body)
            self.keys.append(key)
        return self.script(place, body)


@contextmanager
def listening(endpoint: Endpoint) -> Iterator[Endpoint]:
    """The endpoint on a port of this machine."""

    class Handler(QuietHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            self._reply(endpoint.models())

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._reply(endpoint.chat(body, self.headers.get("Authorization")))

        def _reply(self, reply: Reply) -> None:
            if reply.hang_up:
                self.close_connection = True
                return
            self.send_response(reply.status)
            for name, value in reply.headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    endpoint.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield endpoint
    finally:
        server.shutdown()
        server.server_close()
