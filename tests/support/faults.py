"""A proxy in front of a real S3 server that fails on demand, for tests of everything that stores.

    with FaultyProxy("http://127.0.0.1:8333") as proxy:
        proxy.fail("503", times=2)                     # the next two requests
        proxy.fail("cut-response", methods=("GET",))   # every GET until heal()
        proxy.fail("slow", seconds=5)
        proxy.fail("reset", times=1, methods=("PUT",), contains="manifest.json", then=kill_it)
        proxy.down(); proxy.up()                       # connections refused, same port again
        proxy.heal()

It passes the Host header on as it came, so signatures made for the proxy's address stay valid.
"""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Literal, Self
from urllib.parse import urlsplit

Kind = Literal[
    "reset",  # the connection breaks before anything is sent
    "hang",  # no answer until heal() or the client gives up
    "slow",  # the answer comes `seconds` late
    "503",  # SlowDown, not forwarded
    "500",  # InternalError, not forwarded
    "403",  # AccessDenied, not forwarded
    "cut-request",  # the server gets half of the body, the client no answer
    "cut-response",  # the client gets half of the body, or of the head where there is none
    "cut-head",  # the client gets the status line and nothing more
    "corrupt-response",  # the client gets a body with one flipped bit
    "lose-answer",  # the server does the work, the client gets no answer
]
KINDS: tuple[Kind, ...] = (
    "reset",
    "hang",
    "slow",
    "503",
    "500",
    "403",
    "cut-request",
    "cut-response",
    "cut-head",
    "corrupt-response",
    "lose-answer",
)
_CODES = {"503": "SlowDown", "500": "InternalError", "403": "AccessDenied"}


@dataclass
class Fault:
    kind: Kind
    times: int | None
    seconds: float
    methods: tuple[str, ...]
    contains: str
    then: Callable[[], None] | None


@dataclass
class Request:
    method: str
    path: str
    head: bytes
    body: bytes


class FaultyProxy:
    """Forwards HTTP to one upstream address; each request asks whether a fault is due."""

    def __init__(self, upstream: str, host: str = "127.0.0.1") -> None:
        """`host` is the address of this machine at which it listens."""
        parts = urlsplit(upstream)
        self._host = host
        self._upstream = (parts.hostname or "127.0.0.1", parts.port or 80)
        self._faults: list[Fault] = []
        self._guard = threading.Lock()
        self._healed = threading.Event()
        self._listener: socket.socket | None = None
        self._kept: socket.socket | None = None
        self._port = 0
        self._open: set[socket.socket] = set()
        self.requests: list[str] = []
        """`METHOD path` of everything that arrived, failed or not."""
        self.failed: list[str] = []
        """`kind METHOD path` of every fault that was played."""

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(self, *_: object) -> None:
        self.heal()
        self.down()
        if self._kept:
            self._kept.close()

    @property
    def endpoint(self) -> str:
        return f"http://{self._host}:{self._port}"

    def fail(
        self,
        kind: Kind,
        *,
        times: int | None = None,
        seconds: float = 5.0,
        methods: tuple[str, ...] = (),
        contains: str = "",
        then: Callable[[], None] | None = None,
    ) -> None:
        """Fail the next `times` requests (None: all) of these methods whose path has the text.

        `then` is called at that moment, before the client gets anything, for example to kill it.
        With `lose-answer` the server has done its work by then, otherwise it knows of nothing.
        """
        with self._guard:
            self._healed.clear()
            self._faults.append(Fault(kind, times, seconds, methods, contains, then))

    def heal(self) -> None:
        """Drop all faults and let go of what hangs."""
        with self._guard:
            self._faults.clear()
            self._healed.set()

    def count(self, method: str = "", contains: str = "") -> int:
        """Requests that arrived, of a method and with a text in the path."""
        with self._guard:
            return sum(r.startswith(method) and contains in r for r in self.requests)

    def up(self) -> None:
        """Listen, again at the same port after down()."""
        listener = self._kept or self._bind()
        self._kept = None
        listener.listen(128)
        self._port = listener.getsockname()[1]
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def _bind(self) -> socket.socket:
        bound = socket.socket()
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((self._host, self._port))
        return bound

    def down(self) -> None:
        """Refuse connections and break the open ones, as a dead server does.

        Its port stays bound: a connection of a test beside this one could have it meanwhile.
        """
        if self._listener:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
            self._kept = self._bind()
        with self._guard:
            for client in list(self._open):
                _reset(client)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            with self._guard:
                self._open.add(client)
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            with client, client.makefile("rb") as reader, contextlib.suppress(OSError, ValueError):
                for request in _requests(client, reader):
                    if not self._answer(client, request):
                        return
        finally:
            with self._guard:
                self._open.discard(client)

    def _due(self, request: Request) -> Fault | None:
        line = f"{request.method} {request.path}"
        with self._guard:
            self.requests.append(line)
            for fault in self._faults:
                wanted = not fault.methods or request.method in fault.methods
                if fault.times == 0 or not wanted or fault.contains not in request.path:
                    continue
                if fault.times is not None:
                    fault.times -= 1
                self.failed.append(f"{fault.kind} {line}")
                return fault
        return None

    def _answer(self, client: socket.socket, request: Request) -> bool:
        """Whether the connection continues."""
        fault = self._due(request)
        kind = fault.kind if fault else None
        if fault and fault.then and kind != "lose-answer":
            fault.then()
        if fault and kind == "slow":
            self._healed.wait(fault.seconds)
        if kind == "hang":
            self._healed.wait(600)
        if kind in ("reset", "hang"):
            _reset(client)
            return False
        if kind in _CODES:
            client.sendall(_refusal(kind, request))
            return True
        with socket.create_connection(self._upstream, timeout=60) as server:
            if kind == "cut-request":
                server.sendall(request.head + request.body[: len(request.body) // 2])
                _reset(client)
                return False
            server.sendall(request.head + request.body)
            head, body = _response(server, request.method)
        if fault and kind == "lose-answer":
            if fault.then:
                fault.then()
            _reset(client)
            return False
        if kind == "cut-response":
            client.sendall(head + body[: len(body) // 2] if body else head[:8])
            return False
        if kind == "cut-head":
            client.sendall(head.partition(b"\r\n")[0] + b"\r\n")
            return False
        if kind == "corrupt-response" and body:
            body = bytes([body[0] ^ 1]) + body[1:]
        client.sendall(head + body)
        return True


def _requests(client: socket.socket, reader: IO[bytes]) -> Iterator[Request]:
    while first := reader.readline():
        method, path, _ = first.decode("latin-1").split(" ", 2)
        lines, length, waits = [first], 0, False
        while (line := reader.readline()) not in (b"\r\n", b"\n", b""):
            name, _, value = line.partition(b":")
            match name.strip().lower():
                case b"expect":
                    waits = True
                    continue
                case b"content-length":
                    length = int(value)
                case b"connection":
                    continue
            lines.append(line)
        if waits:
            client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = reader.read(length)
        if len(body) < length:
            return
        yield Request(method, path, b"".join(lines) + b"Connection: close\r\n\r\n", body)


def _response(server: socket.socket, method: str) -> tuple[bytes, bytes]:
    """The whole answer: upstream closes after it; chunks are passed on as they came."""
    data = bytearray()
    while block := server.recv(1 << 16):
        data += block
    head, _, body = bytes(data).partition(b"\r\n\r\n")
    kept = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
    return b"\r\n".join(kept) + b"\r\n\r\n", b"" if method == "HEAD" else body


def _refusal(kind: str | None, request: Request) -> bytes:
    code = _CODES[kind or ""]
    xml = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>on demand</Message></Error>'
    body = b"" if request.method == "HEAD" else xml.encode()
    head = f"HTTP/1.1 {kind} {code}\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}"
    return f"{head}\r\n\r\n".encode() + body


def _reset(client: socket.socket) -> None:
    with contextlib.suppress(OSError):
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.shutdown(socket.SHUT_RDWR)
    with contextlib.suppress(OSError):
        client.close()
