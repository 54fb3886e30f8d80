"""The client repeats what may be repeated, and nothing else; every failure has one form."""

import json
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from hansa.kubernetes import client
from hansa.kubernetes.client import ApiError, Kube, connect
from tests.support.kubeconfigs import write_kubeconfig
from tests.support.loopback import QuietHandler

Answer = tuple[int, Any]
CUT = 0
"""Status of an answer that never comes: the connection is cut."""


class Server(ThreadingHTTPServer):
    """An apiserver that answers from a script and remembers what it was asked."""

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder = folder
        self.script: list[Answer] = []
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []

    @property
    def kube(self) -> Kube:
        return self.connect({"token": "secret"})

    def connect(self, user: dict[str, Any]) -> Kube:
        address = f"http://127.0.0.1:{self.server_port}"
        return connect(write_kubeconfig(self.folder / "config", {"server": address}, user))


class Handler(QuietHandler):
    server: Server

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.asked.append((self.command, self.path, dict(self.headers), body))
        status, data = self.server.script.pop(0)
        if status == CUT:
            self.close_connection = True
            return
        text = data if isinstance(data, bytes) else json.dumps(data).encode()
        self.send_response(status)
        if status == 429:
            self.send_header("Retry-After", "0")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Server]:
    monkeypatch.setattr(client, "PAUSES", (0.01, 0.01))
    running = Server(tmp_path)
    thread = threading.Thread(target=running.serve_forever, args=(0.01,))
    thread.start()
    yield running
    running.shutdown()
    running.server_close()
    thread.join()


def test_a_verb_is_one_request_with_json_and_token(server: Server) -> None:
    server.script = [(200, {"made": True})]
    assert server.kube.create("/x", {"a": 1}, dryRun="All", force=True, gone=None) == {"made": True}
    method, path, headers, body = server.asked[0]
    assert (method, path, json.loads(body)) == ("POST", "/x?dryRun=All&force=true", {"a": 1})
    assert headers["authorization"] == "Bearer secret"
    assert headers["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    "kind, content",
    [
        ("merge", "application/merge-patch+json"),
        ("apply", "application/apply-patch+yaml"),
    ],
)
def test_a_patch_says_which_kind_it_is(server: Server, kind: Any, content: str) -> None:
    server.script = [(200, {})]
    server.kube.patch("/x", {}, kind=kind)
    assert server.asked[0][2]["Content-Type"] == content


def test_a_list_is_gathered_page_by_page(server: Server) -> None:
    server.script = [
        (200, {"metadata": {"continue": "next"}, "items": [1, 2]}),
        (200, {"metadata": {"resourceVersion": "7"}, "items": [3]}),
    ]
    found = server.kube.list("/x", labelSelector="a=b")
    assert found == {"metadata": {"resourceVersion": "7"}, "items": [1, 2, 3]}
    assert "continue=next" in server.asked[1][1]
    assert "labelSelector=a%3Db" in server.asked[1][1]


@pytest.mark.parametrize("first", [(CUT, None), (503, {}), (429, {})])
def test_a_read_is_repeated(server: Server, first: Answer) -> None:
    server.script = [first, (200, {"it": "came"})]
    assert server.kube.get("/x") == {"it": "came"}


@pytest.mark.parametrize("first, seen", [((CUT, None), 1), ((503, {}), 1), ((429, {}), 2)])
def test_a_write_is_repeated_only_if_the_apiserver_did_not_take_it(
    server: Server, first: Answer, seen: int
) -> None:
    server.script = [first, (200, {})]
    if seen == 1:
        with pytest.raises(ApiError):
            server.kube.create("/x", {})
    else:
        server.kube.create("/x", {})
    assert len(server.asked) == seen


def test_a_refusal_carries_the_fields_of_the_status_object(server: Server) -> None:
    server.script = [
        (409, {"reason": "AlreadyExists", "message": "there is one", "details": {"name": "x"}})
    ]
    with pytest.raises(ApiError) as found:
        server.kube.create("/x", {})
    error = found.value
    assert (error.status, error.reason, error.message) == (409, "AlreadyExists", "there is one")
    assert error.details == {"name": "x"}
    assert error.is_conflict and not error.is_not_found and not error.may_pass


def test_an_answer_that_is_no_json_is_still_one_sentence(server: Server) -> None:
    server.script = [(404, b"404 page not found\n"), (200, b"<html>")]
    with pytest.raises(ApiError, match="404 page not found") as found:
        server.kube.get("/x")
    assert found.value.is_not_found
    with pytest.raises(ApiError, match="did not answer with JSON"):
        server.kube.get("/x")


def test_a_watch_yields_events_and_raises_an_error_event(server: Server) -> None:
    events = [
        {"type": "ADDED", "object": {"metadata": {"name": "x"}}},
        {"type": "ERROR", "object": {"code": 410, "reason": "Expired", "message": "too old"}},
    ]
    server.script = [(200, b"\n".join(json.dumps(e).encode() for e in events))]
    found = server.kube.watch("/x", resource_version="5", timeout_seconds=9)
    assert next(found) == events[0]
    with pytest.raises(ApiError, match="too old") as error:
        next(found)
    assert error.value.status == 410
    assert "resourceVersion=5" in server.asked[0][1]
    assert "timeoutSeconds=9" in server.asked[0][1]


def test_a_line_that_does_not_end_is_not_lost(server: Server) -> None:
    server.script = [(200, b"one\n\ntwo")]
    assert list(server.kube.lines("/x", follow=True)) == [b"one", b"", b"two"]


def test_nobody_at_the_address_is_an_error_that_may_pass(server: Server, tmp_path: Path) -> None:
    nobody = connect(write_kubeconfig(tmp_path / "config", {"server": "http://127.0.0.1:1"}, {}))
    with pytest.raises(ApiError) as found:
        nobody.create("/x", {})
    assert found.value.may_pass
    assert (found.value.status, found.value.reason) == (0, "NotConnected")
    assert found.value.message == "http://127.0.0.1:1: Connection refused"


def test_a_refused_token_is_read_again_once(server: Server) -> None:
    file = server.folder / "token"
    file.write_text("old")
    kube = server.connect({"tokenFile": "token"})
    server.script = [(200, {}), (401, {}), (200, {}), (401, {}), (401, {})]
    kube.get("/x")
    file.write_text("new\n")
    kube.get("/x")
    used = [headers["authorization"] for _, _, headers, _ in server.asked]
    assert used == ["Bearer old", "Bearer old", "Bearer new"]
    with pytest.raises(ApiError):
        kube.get("/x")
    assert len(server.asked) == 5


def test_many_threads_share_one_client(server: Server) -> None:
    kube = server.kube
    server.script = [(200, {"n": 1})] * 40
    threads = [threading.Thread(target=lambda: kube.get("/x")) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(server.asked) == 40
