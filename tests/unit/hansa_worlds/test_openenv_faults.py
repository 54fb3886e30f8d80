"""An OpenEnv server that is down, slow, wrong or gone costs an episode, and gets a sentence."""

import json
import math
import socket
import ssl
import time
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from hansa.core.http import HttpError
from hansa_worlds import WorldDown, make
from hansa_worlds.openenv.channel import ServerError
from hansa_worlds.openenv.server import parse_turn
from hansa_worlds.remote import server as sessions
from hansa_worlds.remote.wire import LONGEST_ERROR, LONGEST_TEXT, format_error
from tests.support.doors import certify
from tests.support.openenv_faulty import serving


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(sessions, "PAUSES", (0.01,) * 10)
    monkeypatch.setattr(sessions, "POLL_SECONDS", 0.05)


def world_at(url, **options):
    known = {"start_timeout_seconds": 5, "timeout_seconds": 5, "prompt": "none"}
    return make("openenv", {"url": url, **known, **options})


def begin(world, index=0):
    return world.start(world.tasks("train")[index])


@pytest.mark.attack(
    by="a Pod, a world or an endpoint",
    does="answers as an OpenEnv server with megabytes, garbage, drips, a redirect or not at all",
    result="the episode ends with an error without its text; no step is sent twice",
)
@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ("drop", "openenv: step brings the connection broke off"),
        ("slow 2", "openenv: step brings no answer within 0.3 s"),
        ("drip 5", "openenv: step brings no answer within 0.3 s"),
        ("huge", "openenv: step brings an answer of more than 1048576 bytes"),
        ("raw {", "openenv: step brings an answer that is no JSON"),
        ("raw NaN", "openenv: step brings an answer that is no JSON"),
        ("raw []", "openenv: step brings an answer without data"),
        ('raw {"type": "observation", "data": {}}', "openenv: step brings no observation"),
        (
            'raw {"type": "error", "data": {"code": "SESSION_ERROR", "message": "secret"}}',
            "openenv: step brings error SESSION_ERROR",
        ),
        (
            'raw {"type": "error", "data": {"code": "a \\n b", "message": "secret"}}',
            "openenv: step brings error without a code",
        ),
    ],
)
def test_a_step_that_brings_no_answer_breaks_the_episode_off_and_is_never_sent_twice(how, sentence):
    with serving() as server:
        world = world_at(server.url, timeout_seconds=0.3)
        begin(world)
        server.fail("step", how)
        with pytest.raises(WorldDown) as broken:
            world.step("go")
        assert str(broken.value) == sentence
        assert [each["type"] for each in server.messages if each["type"] != "close"] == [
            "reset",
            "step",
        ]
        assert world.step("go").done
        assert begin(world, 1).text == "turn 0"  # in a session of its own
        assert [world.step("go").done for _ in range(3)] == [False, False, True]
        assert server.sessions == 2


def test_an_error_over_an_action_is_a_wasted_turn_only_while_the_session_lives():
    error = 'raw {"type": "error", "data": {"code": "EXECUTION_ERROR", "message": "so\\nwhat"}}'
    with serving() as server:
        world = world_at(server.url)
        begin(world)
        server.fail("step", error, error)
        assert world.step("go").text == "Error: so what"
        server.fail("state", "drop")
        with pytest.raises(WorldDown, match="step brings error EXECUTION_ERROR"):
            world.step("go")


@pytest.mark.parametrize("how", ["drop", "slow 2", "raw {"])
def test_a_reset_is_sent_again_where_that_helps(how):
    with serving() as server:
        world = world_at(server.url, timeout_seconds=0.3)
        server.fail("reset", how)
        if how == "raw {":
            with pytest.raises(WorldDown, match="reset brings an answer that is no JSON"):
                begin(world)
        else:
            assert begin(world).text == "turn 0"
        assert server.sessions == (1 if how == "raw {" else 2)


def test_sessions_that_a_restart_ended_are_opened_again():
    with serving() as server:
        world = world_at(server.url)
        begin(world)
        server.hang_up()
        with pytest.raises(WorldDown, match="the connection broke off"):
            world.step("go")
        assert begin(world).text == "turn 0"
        server.hang_up()  # between two episodes nobody notices
        assert begin(world, 1).text == "turn 0"
        world.close()


def test_a_server_that_starts_late_is_waited_for():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    world = world_at(f"http://127.0.0.1:{port}", start_timeout_seconds=0.2)
    with pytest.raises(WorldDown) as down:
        begin(world)
    assert str(down.value) == (
        f"options.url: got http://127.0.0.1:{port}, where no OpenEnv server answers (connection"
        " refused), expected one within 0.2 seconds"
    )
    began = time.monotonic()
    with pytest.raises(WorldDown):  # the next episode does not wait once more
        begin(world)
    assert time.monotonic() - began < 0.2
    with serving(port):
        patient = world_at(f"http://127.0.0.1:{port}")
        assert begin(patient).text == "turn 0"
        patient.close()


@pytest.mark.attack(
    by="a Pod, a world or an endpoint",
    does="answers as an OpenEnv server with megabytes, garbage, drips, a redirect or not at all",
    result="the episode ends with an error without its text; no step is sent twice",
)
@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ("404", "openenv: reset brings HTTP 404 at /ws"),
        ("503", "is full (HTTP 503 at /ws), expected one with a free session"),
        ("redirect http://127.0.0.1:1/ws", "openenv: reset brings no WebSocket at /ws"),
        ("redirect /ws", "openenv: reset brings no WebSocket at /ws"),
    ],
)
def test_a_server_without_such_a_socket_is_named(how, sentence, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("ws_proxy", "http://127.0.0.1:1")
    with serving() as server:
        server.fail("open", *[how] * 9)
        with pytest.raises(WorldDown) as down:
            begin(world_at(server.url, retries=1))
        assert sentence in str(down.value)


def test_a_server_behind_tls_is_played_on_where_its_authority_is_trusted(tmp_path, monkeypatch):
    certificate, key = tmp_path / "one.crt", tmp_path / "one.key"
    certify(certificate, key, "one")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with serving(ssl=context) as server:
        assert server.url.startswith("https://")
        with pytest.raises(WorldDown, match=r"answers \(no trusted TLS connection\), expected"):
            begin(world_at(server.url, start_timeout_seconds=0))
        assert server.sessions == 0
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        world = world_at(server.url)
        assert begin(world).text == "turn 0"
        world.close()


def test_a_seed_goes_where_the_options_say_with_what_they_add():
    with serving() as server:
        world = world_at(server.url, task_field="index", reset={"level": 2}, train=[4000, 4009])
        begin(world)
        world.step("go")
        world.close()
        assert [each.get("data") for each in server.messages[:2]] == [
            {"level": 2, "index": 4000},
            {"message": "go"},
        ]


@pytest.mark.parametrize(
    ("written", "sent"), [("7", 7), ("-2.5", -2.5), ("seven", None), ("true", None), ("NaN", None)]
)
def test_an_action_may_be_a_number(written, sent):
    with serving() as server:
        world = world_at(server.url, action_form="number", action_field="action_id")
        begin(world)
        said = world.step(written).text
        world.close()
        steps = [each["data"] for each in server.messages if each["type"] == "step"]
        assert steps == ([] if sent is None else [{"action_id": sent}])
        assert (said == "That is no action here: give one number.") is (sent is None)


OBSERVED = {"a": "one", "b": None, "c": {"d": ["x", {"e": "two"}]}, "n": 3, "metadata": {"m": "no"}}


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ([], "one"),
        (["c.d.-1.e", "a"], "two\none"),
        (["c.d.0", "b", "n"], "x\n3"),
        (["metadata.m"], "no"),
        (["c.d.7", "c.d.x", "nothing"], ""),
        (["c"], '{"d": ["x", {"e": "two"}]}'),
    ],
)
def test_what_the_agent_reads_is_chosen_by_fields(fields, text):
    assert parse_turn({"observation": OBSERVED}, fields).text == text


def test_an_observation_without_a_text_is_read_whole():
    observed = {"board": [0, 1], "metadata": {}}
    assert parse_turn({"observation": observed}, []).text == '{"board": [0, 1]}'


LEAVES = some.none() | some.booleans() | some.integers() | some.floats() | some.text(max_size=20)
NAMES = some.sampled_from(["observation", "reward", "done", "text", "metadata", "code", "errors"])
ANSWERS = some.recursive(
    LEAVES,
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(NAMES, inner, max_size=5),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(some.dictionaries(NAMES, ANSWERS), some.lists(some.sampled_from(["text", "text.0"])))
def test_whatever_comes_is_read_or_refused(data, fields):
    with suppress(HttpError):
        seen = parse_turn(data, fields)
        assert len(seen.text.encode()) <= 4 * LONGEST_TEXT and "\x1b" not in seen.text
        assert math.isfinite(seen.reward)
    error = ServerError(data)
    assert len(format_error(error.words)) <= LONGEST_ERROR
    assert len(str(error)) < 60
    json.dumps(str(error))
