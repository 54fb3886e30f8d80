"""Strangers' bytes: whatever comes, it is refused in one sentence, and others are served on."""

import json
import socket
import time
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

import openai
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hansa_client.serving import chat_request, wire
from hansa_client.serving.errors import OpenAIError
from hansa_client.serving.life import ServingSettings, run_server
from hansa_client.serving.server import ChatServer
from hansa_client.serving.sources import AdapterSource
from tests.support.chat_api import ask, said

KEY = "a-key-of-the-tests"
CHAT = b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\n"
JSON = b"Content-Type: application/json\r\nAuthorization: Bearer " + KEY.encode() + b"\r\n"
Metric = Callable[[str], float]


def exchange(server: ChatServer, data: bytes, *, ends: bool = False) -> tuple[int, bytes]:
    """Send bytes; the status and the body of what comes back, 0 where nothing does."""
    host, port = server.server_address[:2]
    with socket.create_connection((str(host), port), timeout=30) as connection:
        received = b""
        try:
            connection.sendall(data)
            if ends:
                connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(65536):
                received += piece
        except (ConnectionError, TimeoutError):
            pass
    head, _, body = received.partition(b"\r\n\r\n")
    words = head.split(b" ")
    return (int(words[1]) if len(words) > 1 else 0), body


def post(server: ChatServer, body: bytes, headers: bytes = JSON) -> tuple[int, bytes]:
    length = b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(body)
    return exchange(server, CHAT + headers + length + body)


def sentence(body: bytes) -> str:
    error = json.loads(body)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return str(error["message"])


def nested(depth: int) -> bytes:
    return b'{"messages": ' + b"[" * depth + b"]" * depth + b"}"


@pytest.mark.parametrize(
    "body, words",
    [
        pytest.param(b"", "the body: got no JSON", id="nothing"),
        pytest.param(b"{", "the body: got no JSON", id="half of it"),
        pytest.param(b"\xff\xfe\x00", "the body: got no JSON", id="bytes that are no text"),
        pytest.param(b"[]", "the body: got JSON that is not an object", id="a list"),
        pytest.param(b'{"n": NaN}', "the body: got no JSON", id="not a number"),
        pytest.param(nested(100_000), "the body: got no JSON (nested too deeply)", id="depth"),
        pytest.param(b"{}", "model: got nothing", id="an empty object"),
        pytest.param(
            b'{"model": "a", "messages": [{"role": "user", "content": "\\ud800"}]}',
            "messages[0].content: got half of a surrogate pair",
            id="half a character",
        ),
        pytest.param(
            b'{"model": "a", "n": 1' + b"0" * 5000 + b', "messages": []}', "", id="a huge number"
        ),
    ],
)
def test_a_body_that_is_no_request_is_400(server: ChatServer, body: bytes, words: str) -> None:
    status, answer = post(server, body)
    assert status == 400 and words in sentence(answer)


@pytest.mark.parametrize(
    "data, status",
    [
        pytest.param(CHAT + JSON + b"Content-Length: 99999999999\r\n\r\n", 413, id="announced"),
        pytest.param(
            CHAT + JSON + b"Content-Length: %d\r\n\r\n" % (2**21) + b"x" * 2**21, 413, id="sent"
        ),
        pytest.param(CHAT + JSON + b"\r\n", 411, id="no length"),
        pytest.param(CHAT + JSON + b"Content-Length: -1\r\n\r\n", 411, id="a length below zero"),
        pytest.param(
            CHAT + JSON + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx", 411, id="two lengths"
        ),
        pytest.param(
            CHAT + JSON + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411, id="in chunks"
        ),
        pytest.param(CHAT + JSON[:32] + b"Content-Length: 0\r\n\r\n", 401, id="no key"),
        pytest.param(
            b"GET /v1/models HTTP/1.1\r\nAuthorization: Bearer \xfc\xe9\r\n\r\n", 401, id="no text"
        ),
        pytest.param(
            CHAT + JSON.replace(b"application/json", b"text/plain") + b"Content-Length: 0\r\n\r\n",
            415,
            id="what a form in a browser can send",
        ),
        pytest.param(b"DELETE /v1/models HTTP/1.1\r\n\r\n", 405, id="another method"),
        pytest.param(b"GET /v1/chat/completions HTTP/1.1\r\n\r\n", 405, id="GET of a completion"),
        pytest.param(b"GET /etc/passwd HTTP/1.1\r\n\r\n", 404, id="another path"),
        pytest.param(b"GET /" + b"x" * 70000 + b" HTTP/1.1\r\n\r\n", 431, id="a long path"),
        pytest.param(b"GET / HTTP/9.9\r\n\r\n", 505, id="HTTP of another time"),
        pytest.param(b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n", 431, id="many headers"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n", 400, id="TLS"),
    ],
)
def test_what_is_no_request_of_the_api_is_refused(
    server: ChatServer, data: bytes, status: int
) -> None:
    got, body = exchange(server, data, ends=True)
    assert got == status
    assert sentence(body)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.binary(max_size=2000))
def test_random_bytes_never_make_it_fail(server: ChatServer, data: bytes) -> None:
    assert exchange(server, data, ends=True)[0] != 500
    assert post(server, data)[0] in (0, 400)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.sampled_from(["a", "user", "text", "assistant", "base"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["role", "content", "type", "text", "x"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)
BODIES = st.dictionaries(
    st.sampled_from([*chat_request._FIELDS, *chat_request._NEUTRAL, "user", "unknown"]),
    VALUES,
    max_size=8,
)


@settings(max_examples=400, deadline=None)
@given(fields=BODIES)
def test_any_fields_are_a_request_or_one_sentence(fields: dict[str, Any]) -> None:
    try:
        request = chat_request.parse(json.dumps(fields).encode())
    except OpenAIError as error:
        assert error.status == 400 and error.message and "\n" not in error.message
    else:
        assert len(request.texts) % 2 == 1


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(fields=BODIES, text=st.text(max_size=200))
def test_any_request_is_answered_or_refused(
    server: ChatServer, fields: dict[str, Any], text: str
) -> None:
    usual = {"model": "a", "messages": [{"role": "user", "content": text}], "max_tokens": 2}
    status, _ = post(server, json.dumps({**fields, **usual, "stream": False}).encode())
    assert status in (200, 400)


def test_a_body_that_drips_is_given_up(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "READ_SECONDS", 1.0)
    host, port = server.server_address[:2]
    with socket.create_connection((str(host), port), timeout=30) as connection:
        connection.sendall(CHAT + JSON + b"Content-Length: 1000\r\n\r\n")
        begun = time.monotonic()
        received = b""
        while not received and time.monotonic() - begun < 20:
            try:
                connection.sendall(b" ")
                connection.settimeout(0.2)
                received = connection.recv(65536)
            except TimeoutError:
                continue
    assert received.startswith(b"HTTP/1.1 408")


def test_headers_that_never_end_are_given_up(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "READ_SECONDS", 0.5)
    assert exchange(server, CHAT + b"X: y")[0] == 0


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_client_that_leaves_frees_its_slots(
    server: ChatServer, client: openai.OpenAI, metric: Metric
) -> None:
    before = metric("hansa_serve_cancelled_turns_total")
    body = {"model": "a", "messages": said(), "n": 64, "max_tokens": 1900, "temperature": 2}
    for streams in (False, True):
        data = json.dumps({**body, "stream": streams}).encode()
        host, port = server.server_address[:2]
        with socket.create_connection((str(host), port), timeout=30) as connection:
            connection.sendall(CHAT + JSON + b"Content-Length: %d\r\n\r\n" % len(data) + data)
            until(lambda: metric("hansa_serve_active_turns") > 0)
        assert ask(client, max_tokens=2).choices[0].message.content
    until(lambda: metric("hansa_serve_active_turns") == metric("hansa_serve_waiting_turns") == 0)
    assert metric("hansa_serve_cancelled_turns_total") > before


def test_a_pass_that_fails_ends_its_turns_and_no_others(
    server: ChatServer, client: openai.OpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = ask(client).choices[0].message.content
    lora = server.completions.engine.lora

    def fail(rows: Any) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(lora, "route", fail)
    with pytest.raises(openai.InternalServerError, match="cut off"):
        ask(client)
    with pytest.raises(openai.APIError, match="cut off"):
        list(ask(client, stream=True))
    monkeypatch.undo()
    assert ask(client).choices[0].message.content == right


# What pages in a browser, and many connections, can do


@pytest.fixture(scope="module")
def keyless(source: AdapterSource) -> Iterator[ChatServer]:
    with run_server(source, ServingSettings(port=0, slots=2, drain_seconds=1)) as running:
        yield running


PATHS = ("GET /v1/models", "GET /health", "GET /metrics", "POST /v1/chat/completions", "GET /x")


FOREIGN = (
    "Host: evil.example",
    "Host: evil.example:8000",
    "Host: 127.0.0.1.evil.example",
    "Host: [::1",
    "Host: 127.0.0.1\r\nOrigin: http://evil.example",
    "Host: localhost\r\nOrigin: null",
)
OWN = (
    "Host: 127.0.0.1:8000",
    "Host: localhost",
    "Host: [::1]:8000",
    "Host: 10.1.2.3",
    "X: y",
    "Host: localhost:8000\r\nOrigin: http://localhost:8000",
)


@pytest.mark.attack(
    by="a caller of hansa serve",
    does=(
        "shows its owner a page whose name means this machine (DNS rebinding), or one of "
        "another site"
    ),
    result=(
        "403 on every path: without a key `Host` must be an address, `localhost` or the name it "
        "listens on"
    ),
)
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("headers", FOREIGN)
def test_a_page_of_another_site_gets_nothing_where_there_is_no_key(
    keyless: ChatServer, path: str, headers: str
) -> None:
    status, body = exchange(
        keyless, f"{path} HTTP/1.1\r\n{headers}\r\nContent-Length: 0\r\n\r\n".encode()
    )
    assert status == 403
    assert "expected the address of this server" in sentence(body)


@pytest.mark.parametrize("headers", OWN)
def test_a_program_of_this_machine_is_answered_without_a_key(
    keyless: ChatServer, headers: str
) -> None:
    request = f"GET /v1/models HTTP/1.1\r\n{headers}\r\nConnection: close\r\n\r\n"
    assert exchange(keyless, request.encode())[0] == 200


def test_with_a_key_any_name_is_taken(server: ChatServer) -> None:
    request = b"GET /health HTTP/1.1\r\nHost: hansa.example\r\nConnection: close\r\n\r\n"
    assert exchange(server, request)[0] == 200


@pytest.mark.attack(
    by="a caller of hansa serve",
    does="sends long headers over many connections, or keeps connections idle",
    result="refused at 32 KiB; idle connections are closed while few are left",
)
@pytest.mark.parametrize("many", [1, 60], ids=["one long header", "many headers"])
def test_long_headers_are_refused_before_they_are_kept(server: ChatServer, many: int) -> None:
    head = b"".join(b"X-%d: %s\r\n" % (at, b"x" * (60_000 // many)) for at in range(many))
    status, body = exchange(server, b"GET /health HTTP/1.1\r\n" + head + b"\r\n")
    assert status == 431
    assert "expected fewer" in sentence(body)


@pytest.mark.attack(
    by="a caller of hansa serve",
    does="sends long headers over many connections, or keeps connections idle",
    result="refused at 32 KiB; idle connections are closed while few are left",
)
def test_idle_connections_give_way_while_few_are_left(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "is_crowded", lambda: True)
    monkeypatch.setattr(wire, "CROWDED_SECONDS", 0.2)
    host, port = server.server_address[:2]
    with socket.create_connection((str(host), port), timeout=10) as connection:
        began = time.monotonic()
        assert connection.recv(1) == b""
        assert time.monotonic() - began < 5


@pytest.mark.attack(
    by="a caller of hansa serve",
    does="sends a chat that takes long to read, or asks for logprobs that fill the memory",
    result="refused before it is tokenized or answered",
)
def test_a_chat_that_cannot_fit_is_refused_before_its_tokens_are_counted(
    server: ChatServer,
) -> None:
    body = {"model": "a", "messages": [{"role": "user", "content": " " * 900_000}]}
    began = time.process_time()
    status, answer = post(server, json.dumps(body).encode())
    assert status == 400 and time.process_time() - began < 2
    assert "expected at most" in sentence(answer) and "characters" in sentence(answer)


@pytest.mark.attack(
    by="a caller of hansa serve",
    does="sends a chat that takes long to read, or asks for logprobs that fill the memory",
    result="refused before it is tokenized or answered",
)
def test_logprobs_of_many_answers_are_bounded_together(server: ChatServer) -> None:
    asked = {"model": "a", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 2000}
    body = {**asked, "n": 128, "logprobs": True, "top_logprobs": 20}
    status, answer = post(server, json.dumps(body).encode())
    assert (status, sentence(answer).partition(",")[0]) == (
        400,
        "top_logprobs: got 20 for 128 answers of at most 2000 tokens",
    )


def test_a_stream_ends_at_the_longest_time_of_an_answer() -> None:
    events: SimpleQueue[int] = SimpleQueue()
    events.put(1)
    with pytest.raises(OpenAIError, match="the answer took longer"):
        wire.wait_for(events, lambda: False, time.monotonic() - 1)
