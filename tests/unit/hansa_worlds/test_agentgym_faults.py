"""A server that is down, slow, wrong or gone costs at most the episode, and gets a sentence."""

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from hansa_worlds import WorldDown, make
from hansa_worlds.remote import server as sessions
from tests.support.agentgym_server import serving


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(sessions, "PAUSES", (0.01,) * 10)
    monkeypatch.setattr(sessions, "POLL_SECONDS", 0.05)


def world_at(url, environment="textcraft", **options):
    settings = {"start_timeout_seconds": 5, "timeout_seconds": 5, "prompt": "none", **options}
    return make("agentgym", {"url": url, "environment": environment, **settings})


@contextmanager
def playing(environment="textcraft", **options):
    """A server, and a world on it in its first episode."""
    with serving(environment) as server:
        world = world_at(server.url, environment, **options)
        world.start(world.tasks("train")[0])
        yield server, world


def limit(fault):
    """Seconds for an answer: short only where one is waited for in vain, as machines stall."""
    return 1 if fault.startswith(("slow", "drip")) else 5


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_server_that_is_down_is_one_sentence_that_names_the_option():
    url = f"http://127.0.0.1:{free_port()}"
    world = world_at(url, start_timeout_seconds=0)
    with pytest.raises(WorldDown) as down:
        world.start(world.tasks("train")[0])
    assert str(down.value) == (
        f"options.url: got {url}, where no AgentGym server for textcraft answers (connection"
        " refused), expected one within 0 seconds"
    )


def test_a_host_that_does_not_exist_is_named():
    world = world_at("http://nobody.invalid:36001", start_timeout_seconds=0)
    with pytest.raises(WorldDown, match=r"no such host|no connection"):
        world.start(world.tasks("train")[0])


def test_a_sidecar_that_starts_late_is_waited_for():
    port = free_port()
    world = world_at(f"http://127.0.0.1:{port}", start_timeout_seconds=20)
    begun = threading.Event()
    ended = threading.Event()

    def serve_later():
        begun.wait(10)
        time.sleep(0.3)
        with serving("textcraft", port):
            ended.wait(20)

    thread = threading.Thread(target=serve_later)
    thread.start()
    begun.set()
    try:
        assert world.start(world.tasks("train")[0]).text
    finally:
        ended.set()
        thread.join()


def test_after_a_vain_wait_the_next_episodes_do_not_wait_as_long(monkeypatch):
    looks = []
    monkeypatch.setattr(
        sessions.RemoteConnections,
        "probe",
        lambda *_: looks.append(1) or sessions.HttpError("refused", "no"),
    )
    world = world_at("http://127.0.0.1:9", start_timeout_seconds=0.2)
    for _ in range(5):
        with pytest.raises(WorldDown):
            world.start(world.tasks("train")[0])
    assert 2 <= len(looks) <= 8


@pytest.mark.parametrize("path", ["/create", "/reset"])
@pytest.mark.parametrize(
    "fault", ["drop", "half", "status 503", "status 502", "status 429", "slow 2"]
)
def test_setting_up_is_tried_again(path, fault):
    with serving("textcraft") as server:
        world = world_at(server.url, timeout_seconds=limit(fault))
        server.fail(path, fault, fault)
        assert "oal" in world.start(world.tasks("train")[0]).text
        assert server.paths().count(path) == 3


def test_setting_up_is_not_tried_for_ever():
    with serving("textcraft") as server:
        world = world_at(server.url, retries=2)
        server.fail("/reset", *["drop"] * 10)
        with pytest.raises(WorldDown, match=r"/reset of task .* brings the connection broke off"):
            world.start(world.tasks("train")[0])
        assert server.paths().count("/reset") == 3


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("drop", "the connection broke off"),
        ("half", "the answer broke off"),
        ("slow 2", "no answer within 1 s"),
        ("drip 4", "no whole answer in time"),
        ("status 502", "HTTP 502"),
        ("huge", "more than 1048576 bytes"),
        ("raw <html>", "no JSON"),
        ("raw [[", "no JSON"),
        ("raw " + "[" * 100_000, "no JSON"),
        ("raw []", "no turn"),
        ("raw null", "no turn"),
        ('raw {"observation": 7, "reward": 0, "done": false}', "no text in 'observation'"),
        ('raw {"observation": "x", "reward": "1", "done": false}', "no number in 'reward'"),
        ('raw {"observation": "x", "reward": NaN, "done": false}', "no JSON"),
        ('raw {"observation": "x", "reward": 1e999, "done": false}', "no number in 'reward'"),
        ('raw {"observation": "x", "reward": 0}', "no true or false in 'done'"),
        ('raw {"observation": "x", "reward": 0, "done": "no"}', "no true or false in 'done'"),
    ],
)
def test_a_step_whose_answer_is_lost_is_not_repeated_and_breaks_the_episode_off(fault, reason):
    with playing(timeout_seconds=limit(fault)) as (server, world):
        server.fail("/step", fault)
        with pytest.raises(WorldDown) as broken:
            world.step("inventory of secrets")
        assert reason in str(broken.value)
        assert "secrets" not in str(broken.value)
        assert server.paths().count("/step") == 1
        assert not world.success
        assert world.step("inventory").done
        assert world.start(world.tasks("train")[1]).text


def test_a_step_that_was_not_begun_is_repeated():
    with playing() as (server, world):
        server.fail("/step", "status 503", "status 429")
        assert not world.step("inventory").done
        assert server.paths().count("/step") == 3


@pytest.mark.parametrize("status", [500, 422, 404])
def test_a_server_that_fails_over_an_action_costs_a_turn_if_the_session_lives(status):
    with playing("webshop") as (server, world):
        server.fail("/step", f"status {status}")
        seen = world.step("search[((((]")
        assert (seen.text, seen.reward, seen.done) == (
            "The action could not be carried out.",
            0.0,
            False,
        )


def test_an_error_with_status_200_costs_a_turn_if_the_session_lives():
    with playing() as (server, world):
        server.fail("/step", 'raw {"error": "list index out of range\\u001b[31m"}')
        seen = world.step("craft 1 using")
        assert (seen.text, seen.done) == ("Error: list index out of range[31m", False)


@pytest.mark.parametrize("environment", ["textcraft", "babyai", "maze", "wordle", "webshop"])
def test_a_server_that_lost_its_sessions_breaks_the_episode_and_plays_the_next(environment):
    with playing(environment) as (server, world):
        server.forget()
        with pytest.raises(WorldDown):
            world.step("inventory")
        assert world.start(world.tasks("train")[1]).text
        world.close()
        server.forget()
        assert world.start(world.tasks("train")[2]).text


def test_a_server_that_was_restarted_is_played_on():
    port = free_port()
    with serving("textcraft", port):
        world = world_at(f"http://127.0.0.1:{port}")
        world.start(world.tasks("train")[0])
    with pytest.raises(WorldDown):
        world.step("inventory")
    with serving("textcraft", port):
        assert world.start(world.tasks("train")[1]).text


def test_a_connection_that_was_closed_between_two_turns_costs_nothing():
    """Uvicorn closes one after five idle seconds, and a model may think for longer."""
    with playing() as (server, world):
        for _ in range(3):
            server.hang_up()
            assert "nventory" in world.step("inventory").text
        assert server.connections == 4


def test_sessions_that_take_long_to_open_are_opened_side_by_side():
    with serving("textcraft") as server:
        server.fail("/create", *["slow 0.4"] * 8)
        worlds = [world_at(server.url) for _ in range(8)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda world: world.start(world.tasks("train")[0]), worlds))
        assert server.most_at_once > 1


def test_a_server_that_is_no_agentgym_server_is_told_apart():
    with serving("maze") as server:
        world = world_at(server.url)
        with pytest.raises(
            WorldDown, match=r"for textcraft answers \(POST /create brings HTTP 404"
        ):
            world.start(world.tasks("train")[0])


def test_a_browser_that_does_not_come_up_is_no_first_observation():
    with serving("webarena") as server:
        world = world_at(server.url, "webarena")
        server.fail("/reset", *['raw {"observation": "TimeoutError", "sites": "Error"}'] * 2)
        with pytest.raises(WorldDown, match="brings an error"):
            world.start(world.tasks("train")[0])


def test_a_task_that_the_server_does_not_have_is_named_by_its_number():
    with serving("maze") as server:
        world = world_at(server.url, "maze", tasks=[26, 40])
        with pytest.raises(WorldDown, match=r"/reset of task \d+ brings an error"):
            world.start(world.tasks("train")[0])


@pytest.mark.parametrize(
    "answer", ["{}", '{"id": true}', '{"id": null}', '{"id": "../x"}', '"a b"', '{"error": "full"}']
)
def test_a_session_that_is_none_is_refused(answer):
    with serving("textcraft") as server:
        world = world_at(server.url)
        server.fail("/create", f"raw {answer}")
        with pytest.raises(WorldDown, match="POST /create brings"):
            world.start(world.tasks("train")[0])


def test_redirects_are_not_followed():
    with serving("textcraft") as server, serving("textcraft") as other:
        world = world_at(server.url)
        server.fail("/create", f"redirect {other.url}/create")
        with pytest.raises(WorldDown, match="HTTP 302"):
            world.start(world.tasks("train")[0])
        assert other.requests == []


def test_text_is_cut_and_cannot_write_to_a_terminal():
    with playing() as (server, world):
        text = "\\u001b]0;owned\\u0007\\ud800\\u202e" + "x" * 50_000
        server.fail("/step", f'raw {{"observation": "{text}", "reward": 0, "done": false}}')
        seen = world.step("inventory")
        assert seen.text.startswith("]0;ownedxxx")
        assert len(seen.text) < 20_000
        seen.text.encode()


def test_closing_does_not_mind_a_server_that_is_gone():
    with playing() as (_, world):
        pass
    world._server.close()
    world.close()
