"""The HTTP client: what is repeated, for how long, and what an answer may be."""

import threading
import time
from collections.abc import Callable, Iterator
from http.server import ThreadingHTTPServer
from typing import Any

import pytest

from hansa.core import http
from hansa.core.http import STATUSES, HttpClient, HttpError, Response, make_status_error
from tests.support.loopback import QuietHandler

Script = Callable[[int], tuple[int, dict[str, str], bytes]]


class Server(ThreadingHTTPServer):
    """Answers as a script says; `asked` counts the requests."""

    daemon_threads = True
    script: Script
    asked = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(QuietHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked += 1
        status, headers, body = self.server.script(self.server.asked)
        if not status:
            self.close_connection = True
            return
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(http, "FIRST_PAUSE_SECONDS", 0.001)
    with Server(("127.0.0.1", 0), Handler) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def ask(server: Server, method: str = "GET", **repeat: Any) -> Response:
    client = HttpClient(read_seconds=5)
    return client.repeat(lambda: client.send(method, server.url), **repeat)


@pytest.mark.parametrize("status", STATUSES)
def test_every_status_of_the_table_is_asked_again(server: Server, status: int) -> None:
    server.script = lambda asked: (status, {}, b"") if asked < 3 else (200, {}, b"{}")
    assert ask(server, tries=3).json() == {}
    assert server.asked == 3


@pytest.mark.parametrize("status", [200, 302, 400, 401, 404, 422, 501])
def test_any_other_status_is_the_answer(server: Server, status: int) -> None:
    server.script = lambda _: (status, {}, b"x")
    assert (ask(server, tries=3).status, server.asked) == (status, 1)


@pytest.mark.parametrize(
    "answer, times",
    [
        pytest.param(503, 3, id="not begun"),
        pytest.param(502, 1, id="behind a proxy"),
        pytest.param(500, 1, id="failed"),
        pytest.param(0, 1, id="hung up"),
    ],
)
def test_what_is_not_safe_is_repeated_only_where_it_was_not_begun(
    server: Server, answer: int, times: int
) -> None:
    server.script = lambda _: (answer, {}, b"")
    with pytest.raises(HttpError) as caught:
        ask(server, "POST", tries=3, is_safe=False)
    assert (server.asked, caught.value.status) == (times, answer)


def test_the_last_error_says_how_often_it_was_tried(server: Server) -> None:
    server.script = lambda _: (0, {}, b"")
    with pytest.raises(HttpError, match=r"^the connection broke off, 3 tries in 0 s$"):
        ask(server, tries=3)


def test_retry_after_is_waited_for_within_the_patience(server: Server) -> None:
    server.script = lambda asked: (429, {"Retry-After": "1"}, b"") if asked < 2 else (200, {}, b"")
    began = time.monotonic()
    ask(server, patience_seconds=30)
    assert time.monotonic() - began >= 1
    server.asked = 0
    with pytest.raises(HttpError, match=r"^HTTP 429, one try$"):
        ask(server, patience_seconds=0.5)


def test_a_server_that_asks_for_a_year_is_waited_for_as_long_as_for_any(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "LONGEST_PAUSE_SECONDS", 0.01)
    server.script = lambda _: (429, {"Retry-After": "31536000"}, b"")
    with pytest.raises(HttpError, match=r"^HTTP 429, 2 tries in 0 s$"):
        ask(server, tries=2)


@pytest.mark.parametrize("size, fits", [(1000, True), (1001, False)])
def test_an_answer_is_bounded(server: Server, size: int, fits: bool) -> None:
    server.script = lambda _: (200, {}, b"x" * size)
    client = HttpClient(largest=1000)
    if fits:
        assert len(client.send("GET", server.url).content) == size
        return
    with pytest.raises(HttpError, match=r"^an answer of more than 1000 bytes$") as caught:
        client.send("GET", server.url)
    assert caught.value.kind == "answer" and not caught.value.may_pass


def test_an_answer_is_not_unpacked(server: Server) -> None:
    server.script = lambda _: (200, {"Content-Encoding": "gzip"}, b"no gzip")
    assert HttpClient().send("GET", server.url).content == b"no gzip"


def test_nobody_there_is_refused() -> None:
    for url, why in (
        ("http://127.0.0.1:1", "connection refused"),
        ("http://no-such-host.invalid", "no such host"),
    ):
        with pytest.raises(HttpError, match=f"^{why}$") as caught:
            HttpClient(read_seconds=5).send("GET", url)
        assert caught.value.kind == "refused"


@pytest.mark.parametrize(
    "content, expected",
    [
        (b'{"error": {"message": "no\\n model"}}', "no model"),
        (b'{"errors": [{"code": "DENIED", "message": "no"}]}', "no"),
        (b'{"errors": [{"code": "DENIED"}]}', "DENIED"),
        (b'{"detail": "no"}', "no"),
        (b'{"errors": []}', ""),
        (b'"no"', "no"),
        (b"<html>", ""),
        (b"[" * 100_000, ""),
    ],
)
def test_a_servers_reason_is_read_in_every_shape(content: bytes, expected: str) -> None:
    assert Response(400, {}, content).sentence() == expected


def test_a_closed_client_asks_no_more(server: Server) -> None:
    server.script = lambda _: (503, {}, b"")
    client = HttpClient()
    client.close()
    with pytest.raises(HttpError, match=r"^HTTP 503$"):
        client.repeat(lambda: client.send("GET", server.url), patience_seconds=60)
    assert server.asked == 1
    assert make_status_error(Response(503)).kind == "busy"
