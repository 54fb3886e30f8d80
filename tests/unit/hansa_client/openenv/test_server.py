"""A world behind an OpenEnv server: sessions, single requests, bounds, and bad messages."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from hansa.errors import InputError
from hansa_client.openenv import connection, sessions
from hansa_client.openenv.life import serving
from hansa_client.openenv.server import Settings, WorldServer
from hansa_client.serving import wire
from hansa_worlds import DEMO_OPTIONS, OptionError, World, make
from hansa_worlds.contract import CHECKS, HOSTILE
from hansa_worlds.maze import Maze

OPTIONS = {**DEMO_OPTIONS["maze"], "prompt": "none"}


@contextmanager
def maze(**more: Any) -> Iterator[WorldServer]:
    known = {"world": "maze", "options": OPTIONS, "port": 0, "sessions": 8}
    with serving(Settings(**{**known, **more})) as server:
        yield server


@pytest.fixture(scope="module")
def server() -> Iterator[WorldServer]:
    with maze() as server:
        yield server


@contextmanager
def session(server: WorldServer, **headers: str) -> Iterator[ClientConnection]:
    url = server.url.replace("http", "ws") + "/ws"
    with connect(url, additional_headers=headers, proxy=None, max_size=None) as socket:
        yield socket


def ask(socket: ClientConnection, kind: str, data: Any = None) -> Any:
    message = {"type": kind} if data is None else {"type": kind, "data": data}
    socket.send(json.dumps(message))
    return json.loads(socket.recv(timeout=20))


def call(
    server: WorldServer, method: str, path: str, body: Any = None, **headers: str
) -> tuple[int, Any]:
    host, port = server.server_address[:2]
    client = http.client.HTTPConnection(str(host), port, timeout=20)
    given = {"Content-Type": "application/json", **headers}
    client.request(method, path, body if isinstance(body, bytes) else json.dumps(body), given)
    answer = client.getresponse()
    document = json.loads(answer.read())
    client.close()
    return answer.status, document


def until(is_so: Any) -> None:
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_an_expert_wins_over_the_socket_as_it_does_at_home(server: WorldServer) -> None:
    """Seed n is task n of the split, and every observation is the world's own."""
    world = make("maze", OPTIONS)
    with session(server) as socket:
        for split, number in (("train", 3), ("test", 0), ("validation", 5)):
            task = world.tasks(split)[number]
            seen = world.start(task)
            given = {"seed": number, "split": split, "episode_id": "mine"}
            turn = ask(socket, "reset", given)["data"]
            assert turn["observation"]["text"] == seen.text
            while not seen.done:
                action = world.expert().text
                seen = world.step(action)
                turn = ask(socket, "step", {"message": action})["data"]
                assert (turn["observation"]["text"], turn["reward"], turn["done"]) == (
                    seen.text,
                    seen.reward,
                    seen.done,
                )
            state = ask(socket, "state")
            assert state["type"] == "state"
            assert state["data"] == {
                "episode_id": "mine",
                "step_count": world._turns,
                "world": "maze",
                "task": task.id,
                "split": split,
                "done": True,
                "success": True,
            }


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS.keys())
def test_our_own_door_finds_the_same_world_there(server: WorldServer, check: Any) -> None:
    """World openenv plays what we serve, with no option but the address."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hansa_worlds.contract.EPISODES", 2)
        worlds: list[World] = []

        def door() -> World:
            worlds.append(make("openenv", {"url": server.url, "prompt": "none"}))
            return worlds[-1]

        check(door)
        for world in worlds:
            world.close()


def test_episodes_are_played_by_single_requests(server: WorldServer) -> None:
    world = make("maze", OPTIONS)
    for episode in ({}, {"episode_id": "a/b"}):
        seen = world.start(world.tasks("train")[1])
        status, turn = call(server, "POST", "/reset", {"seed": 1, **episode})
        assert (status, turn["observation"]["text"]) == (200, seen.text)
        action = world.expert().action
        seen = world.step(action)
        status, turn = call(server, "POST", "/step", {"action": {"message": action}, **episode})
        assert (status, turn["observation"]["text"]) == (200, seen.text)
        assert turn["metadata"]["task"] == world.tasks("train")[1].id
    assert call(server, "GET", "/state?episode_id=a%2Fb")[1]["step_count"] == 1
    assert call(server, "GET", "/state?episode_id=other") == (
        409,
        {"detail": "no such episode has begun: reset comes first"},
    )


def test_what_there_is_to_look_at(server: WorldServer) -> None:
    assert call(server, "GET", "/health") == (200, {"status": "healthy"})
    about = call(server, "GET", "/metadata")[1]
    assert (about["name"], about["author"]) == ("maze", "Hansa")
    assert about["readme_content"] == Maze.rules
    assert call(server, "GET", "/schema")[1]["action"]["required"] == ["message"]
    assert {"/reset", "/step", "/state"} <= call(server, "GET", "/openapi.json")[1]["paths"].keys()


def test_a_client_that_looks_for_tools_is_told_that_there_are_none(server: WorldServer) -> None:
    asked = {"jsonrpc": "2.0", "id": 7, "method": "tools/list"}
    status, answer = call(server, "POST", "/mcp", asked)
    assert (status, answer["id"], answer["error"]["message"]) == (200, 7, "a world has no tools")
    assert call(server, "POST", "/mcp", b"[")[1]["error"]["code"] == -32600


@pytest.mark.parametrize(
    ("message", "code", "sentence"),
    [
        ("no", "INVALID_JSON", "the message: expected JSON"),
        ("[1]", "INVALID_JSON", "the message: expected a JSON object"),
        ("[" * 100_000, "INVALID_JSON", "the message: expected JSON"),
        ("{}", "UNKNOWN_TYPE", "type: expected reset or step or state or close"),
        ('{"type": "mcp"}', "UNKNOWN_TYPE", "type: expected reset or step or state or close"),
        ('{"type": "step", "data": []}', "VALIDATION_ERROR", "data: expected an object"),
        ('{"type": "step"}', "VALIDATION_ERROR", "message: got nothing, expected text"),
        ('{"type": "step", "data": {"message": 1}}', "VALIDATION_ERROR", "message: expected text"),
        ('{"type": "step", "data": {"message": ""}}', "EXECUTION_ERROR", "no episode has begun"),
        ('{"type": "step", "data": {"x": ""}}', "VALIDATION_ERROR", "x: unknown, expected message"),
        ('{"type": "reset", "data": {"seed": -1}}', "VALIDATION_ERROR", "seed: expected a whole"),
        ('{"type": "reset", "data": {"seed": true}}', "VALIDATION_ERROR", "seed: expected a whole"),
        ('{"type": "reset", "data": {"sed": 1}}', "VALIDATION_ERROR", "sed: unknown, expected"),
        (
            '{"type": "reset", "data": {"split": "all"}}',
            "VALIDATION_ERROR",
            "split: expected train or validation or test",
        ),
        ('{"type": "state", "more": 1}', "VALIDATION_ERROR", "more: unknown, expected type, data"),
    ],
)
def test_a_bad_message_is_answered_and_the_session_goes_on(
    server: WorldServer, message: str, code: str, sentence: str
) -> None:
    with session(server) as socket:
        socket.send(message)
        answer = json.loads(socket.recv(timeout=20))
        assert (answer["type"], answer["data"]["code"]) == ("error", code)
        assert answer["data"]["message"].startswith(sentence)
        assert ask(socket, "reset", {"seed": 1})["type"] == "observation"


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/", None, 404),
        ("GET", "/reset", None, 405),
        ("POST", "/health", {}, 405),
        ("GET", "/ws", None, 426),
        ("POST", "/reset", b"{", 400),
        ("POST", "/reset", {"seed": "7"}, 422),
        ("POST", "/reset", {"episode_id": ""}, 422),
        ("POST", "/step", {}, 422),
        ("POST", "/step", {"action": "up"}, 422),
        ("POST", "/step", {"action": {}, "more": 1}, 422),
        ("POST", "/reset", b"x" * (wire.MOST_BYTES + 1), 413),
    ],
)
def test_a_bad_request_is_answered_in_a_sentence(
    server: WorldServer, method: str, path: str, body: Any, status: int
) -> None:
    found, document = call(server, method, path, body)
    assert (found, list(document)) == (status, ["detail"])
    assert document["detail"]
    assert call(server, "GET", "/health")[0] == 200


def test_a_page_of_another_site_reaches_nothing(server: WorldServer) -> None:
    """A browser says where a page comes from, and asks before it sends JSON."""
    with pytest.raises(InvalidStatus) as refused, session(server, Origin="http://evil.example"):
        pass
    assert refused.value.response.status_code == 403
    host = server.url.removeprefix("http://")
    with session(server, Origin=f"http://{host}") as socket:
        assert ask(socket, "state")["type"] == "state"
    status, _ = call(server, "POST", "/reset", {}, **{"Content-Type": "text/plain"})
    assert status == 415


def test_a_key_is_asked_for_everywhere_but_at_the_health() -> None:
    with maze(api_key="k" * 20) as server:
        assert call(server, "GET", "/health")[0] == 200
        for method, path in (("GET", "/schema"), ("GET", "/metadata"), ("POST", "/reset")):
            assert call(server, method, path, {})[0] == 401
        with pytest.raises(InvalidStatus) as refused, session(server):
            pass
        assert refused.value.response.status_code == 401
        key = {"Authorization": f"Bearer {'k' * 20}"}
        assert call(server, "POST", "/reset", {}, **key)[0] == 200
        with session(server, **key) as socket:
            assert ask(socket, "reset", {})["type"] == "observation"


def test_sessions_are_bounded_and_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    with maze(sessions=2) as server, session(server) as one:
        assert ask(one, "reset", {})["type"] == "observation"
        assert call(server, "POST", "/reset", {})[0] == 200
        with session(server) as three:
            error = json.loads(three.recv(timeout=20))["data"]
            assert error["code"] == "CAPACITY_REACHED"
            assert (error["active_sessions"], error["max_sessions"]) == (2, 2)
            with pytest.raises(ConnectionClosed):
                three.recv(timeout=20)
        status, document = call(server, "POST", "/reset", {"episode_id": "new"})
        assert (status, document) == (503, {"detail": "all 2 sessions are taken"})
        monkeypatch.setattr(sessions, "IDLE_SECONDS", 0.0)  # the episode of single requests is left
        with session(server) as three:
            assert ask(three, "reset", {})["type"] == "observation"
            assert ask(one, "state")["type"] == "state"
        assert call(server, "GET", "/state")[0] == 409
        until(lambda: server.sessions._taken == 1)


def test_a_client_that_vanishes_leaves_its_session(server: WorldServer) -> None:
    with session(server) as one:
        ask(one, "reset", {})
        before = server.sessions._taken
        one.close_socket()
        until(lambda: server.sessions._taken < before)


def test_a_client_that_only_pings_loses_its_session_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "IDLE_SECONDS", 0.3)
    with maze() as server, session(server) as one:
        with pytest.raises(ConnectionClosed):
            for _ in range(2000):
                one.ping()
                time.sleep(0.01)
        until(lambda: server.sessions._taken == 0)


def test_a_client_that_answers_no_ping_loses_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("LOOK", 0.05), ("PING", 0.05), ("SILENT", 0.3)):
        monkeypatch.setattr(connection, f"{name}_SECONDS", seconds)
    with maze() as server:
        host, port = server.server_address[:2]
        with socket.create_connection((str(host), port)) as dead, session(server) as alive:
            key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13"
            head = f"Host: {host}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{key}"
            dead.sendall(f"GET /ws HTTP/1.1\r\n{head}\r\n\r\n".encode())
            until(lambda: server.sessions._taken == 2)
            until(lambda: server.sessions._taken == 1)
            assert ask(alive, "state")["type"] == "state"  # whose client answers pings


def test_a_message_that_is_too_long_ends_its_session_alone(server: WorldServer) -> None:
    with session(server) as other, session(server) as one:
        ask(other, "reset", {"seed": 2})
        one.send("x" * (wire.MOST_BYTES + 1))
        with pytest.raises(ConnectionClosed) as closed:
            one.recv(timeout=20)
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1009
        assert ask(other, "state")["data"]["step_count"] == 0


def test_a_message_may_come_in_pieces(server: WorldServer) -> None:
    with session(server) as one:
        one.send(['{"type": "re', 'set", "data"', ": {}}"])
        assert json.loads(one.recv(timeout=20))["type"] == "observation"


def test_whatever_an_agent_writes_is_a_turn(server: WorldServer) -> None:
    with session(server) as one:
        for text in (each[:90_000] for each in HOSTILE):
            ask(one, "reset", {"seed": 1})
            turn = ask(one, "step", {"message": text})
            assert turn["type"] == "observation", text[:40]


ANYTHING = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(max_size=9),
    lambda inner: (
        some.lists(inner, max_size=3)
        | some.dictionaries(
            some.sampled_from(["type", "data", "message", "seed", "split", "action"]), inner
        )
    ),
    max_leaves=9,
)


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(some.builds(lambda kind, data: {"type": kind, "data": data}, ANYTHING, ANYTHING) | ANYTHING)
def test_fuzzed_messages_are_all_answered(server: WorldServer, message: Any) -> None:
    if isinstance(message, dict) and message.get("type") == "close":
        return
    with session(server) as one:
        one.send(json.dumps(message))
        answer = json.loads(one.recv(timeout=20))
        assert answer["type"] in ("error", "observation", "state")
        assert "see its log" not in json.dumps(answer)
    assert call(server, "POST", "/reset", message)[0] in (200, 400, 422)
    assert call(server, "POST", "/step", message)[0] in (200, 400, 409, 422)


class Broken(Maze):
    """Raises what nobody expects."""

    def _act(self, action: str) -> Any:
        raise ZeroDivisionError(action)


def test_a_world_that_raises_costs_one_answer(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("hansa_client.openenv.server.make", lambda *_: Broken(OPTIONS))
    with maze() as server, session(server) as one:
        ask(one, "reset", {})
        answer = ask(one, "step", {"message": "secret"})
        assert answer["data"]["message"] == "the server failed, see its log"
        assert ask(one, "reset", {})["type"] == "observation"
        call(server, "POST", "/reset", {})
        assert call(server, "POST", "/step", {"action": {"message": "x"}})[0] == 500
        assert call(server, "GET", "/health")[0] == 200
    assert "ZeroDivisionError" in capfd.readouterr().err


def test_many_play_at_once_and_none_sees_another(server: WorldServer) -> None:
    failed: list[object] = []

    def play(number: int) -> None:
        world = make("maze", OPTIONS)
        try:
            with session(server) as one:
                for _ in range(5):
                    seen = world.start(world.tasks("train")[number])
                    assert ask(one, "reset", {"seed": number})["type"] == "observation"
                    while not seen.done:
                        action = world.expert().action
                        seen = world.step(action)
                        turn = ask(one, "step", {"message": action})
                        assert turn["data"]["observation"]["text"] == seen.text
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=play, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failed == []


def test_sessions_are_told_when_the_server_ends() -> None:
    with maze() as server, session(server) as one:
        ask(one, "reset", {})
        ending = threading.Thread(target=server.drain, args=(5.0,))
        ending.start()
        with pytest.raises(ConnectionClosed) as closed:
            one.recv(timeout=20)
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1001
        ending.join(20)


def test_wrong_options_and_a_taken_port_are_said_before_anything_is_served() -> None:
    with pytest.raises(OptionError, match=r"options\.size: got 99"), maze(options={"size": 99}):
        pass
    with maze() as server:
        port = server.server_address[1]
        with pytest.raises(InputError, match="--host, --port: got"), maze(port=port):
            pass
