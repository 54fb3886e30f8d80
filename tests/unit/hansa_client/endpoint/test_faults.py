"""Endpoints that fail: turns are asked for again, then episodes are dropped and counted."""

import json
import re
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from hansa.adapter import lora
from hansa.api import bucket_documents
from hansa.api.endpoint import ENV_API_KEY
from hansa.core import http
from hansa.core.errors import PermanentError, WorldBroken
from hansa.core.exits import Exit
from hansa_client.models.base_model import Base
from hansa_client.rollout import episodes, tasks
from hansa_client.rollout.episodes import EpisodeJob, RolloutConfig
from hansa_client.trajectory import render_all
from hansa_worlds import DEMO_OPTIONS
from tests.unit.hansa_client.endpoint import playing
from tests.unit.hansa_client.endpoint.scripted import Endpoint, Reply, listening, turn
from tests.unit.hansa_client.rounds import Assign

HOW = replace(playing.HOW, max_broken=1.0)
SECRET = "the-prompt-itself"
MOVE = turn("move up")


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(http, "LONGEST_PAUSE_SECONDS", 0.02)


@pytest.fixture
def play(
    base: Base, start: lora.Tensors, assign: Assign
) -> Callable[..., tuple[episodes.Played, Endpoint]]:
    """Plays eight episodes of the maze at an endpoint with a script."""

    def run(
        script: Callable[[int, dict[str, Any]], Reply], how: RolloutConfig = HOW, **fields: Any
    ) -> tuple[episodes.Played, Endpoint]:
        digest = bucket_documents.sha256(lora.encode(start))
        with listening(Endpoint(digest, script)) as endpoint:
            given = {"url": endpoint.url, "server": "other", "patienceSeconds": 30, **fields}
            options = {**DEMO_OPTIONS["maze"], "max_turns": 3}
            assignment = assign(endpoint=given, options=options)
            assert assignment.endpoint
            world = tasks.make_world(assignment)
            jobs = [EpisodeJob(t, 0, seed) for seed, t in enumerate(world.tasks("train")[:8])]
            engine = playing.engine(assignment, start)
            played = episodes.play(
                base, lambda: tasks.make_world(assignment), jobs, how, decoders=engine
            )
            return played, endpoint

    return run


Run = Callable[..., tuple[episodes.Played, Endpoint]]


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(Reply(429, headers=(("Retry-After", "0"),)), id="429 with Retry-After"),
        pytest.param(Reply(429), id="429"),
        pytest.param(Reply(503), id="503"),
        pytest.param(Reply(500, body=b"\xff\x00"), id="500 with garbage"),
        pytest.param(Reply(hang_up=True), id="it hangs up"),
    ],
)
def test_a_storm_that_passes_costs_no_episode(play: Run, trouble: Reply) -> None:
    played, endpoint = play(lambda place, _: trouble if place % 3 else MOVE)
    assert (len(played.episodes), played.broken) == (8, [])
    assert len(endpoint.asked) > 2 * sum(len(e.turns) // 2 for e in played.episodes)


def test_a_turn_that_is_asked_for_again_is_the_same_turn(play: Run) -> None:
    _, endpoint = play(lambda place, _: MOVE if place % 2 else Reply(503))
    bodies = [json.dumps(body, sort_keys=True) for body in endpoint.asked]
    assert 2 * len(set(bodies)) == len(bodies)


@pytest.mark.attack(
    by="a Pod, a world or an endpoint",
    does="fails in a turn of an endpoint, with text of the episode in its answer",
    result="the episode is dropped and counted; no text of it is shown",
)
@pytest.mark.parametrize(
    "trouble, said",
    [
        pytest.param(Reply(429), r"HTTP 429, \d+ tries in \d s", id="a storm without end"),
        pytest.param(Reply(400, body=SECRET.encode()), r"HTTP 400", id="400 quotes the prompt"),
        pytest.param(Reply(404), r"HTTP 404", id="the model is gone"),
        pytest.param(Reply(302, headers=(("Location", "/"),)), r"HTTP 302", id="elsewhere"),
        pytest.param(Reply(body=b"{}"), "no chat completion", id="no completion"),
        pytest.param(Reply(body=b"[" * 100_000), "no chat completion", id="deep JSON"),
        pytest.param(Reply(body=b'{"choices": [1]}'), "no chat completion", id="no choice"),
        pytest.param(turn("x", "tool_calls"), "is not text", id="a tool call"),
        pytest.param(Reply(hang_up=True), r"the connection broke off, \d+ tries", id="it hangs up"),
    ],
)
def test_an_episode_without_a_turn_is_dropped_and_the_others_go_on(
    play: Run, trouble: Reply, said: str
) -> None:
    first: list[str] = []

    def script(_: int, body: dict[str, Any]) -> Reply:
        first.append(body["messages"][0]["content"])
        return trouble if first[-1] == first[0] else MOVE

    played, endpoint = play(script, patienceSeconds=1)
    (fault,) = played.broken
    assert len(played.episodes) == 7
    assert str(fault).startswith(f"EndpointFailed at {endpoint.url.removesuffix('/v1')} (")
    assert re.search(said, str(fault)), fault
    assert SECRET not in str(fault)


def test_too_many_end_the_job_with_a_sentence_and_another_attempt_may_help(play: Run) -> None:
    with pytest.raises(WorldBroken) as caught:
        play(lambda *_: Reply(500), replace(HOW, max_broken=0.1), patienceSeconds=0)
    assert caught.value.message.startswith(
        "the endpoint failed in 1 of 8 episodes, expected at most 0.1 of them: EndpointFailed at"
    )
    assert caught.value.exit == Exit.WORLD_BROKEN
    assert "see that the endpoint answers" in caught.value.hint


def test_a_server_that_asks_for_more_patience_than_there_is_is_not_waited_for(play: Run) -> None:
    later = Reply(429, headers=(("Retry-After", "100000"),))
    began = time.monotonic()
    played, endpoint = play(lambda *_: later)
    assert len(played.broken) == 8 and len(endpoint.asked) == 8
    assert time.monotonic() - began < 20


def test_a_server_that_is_silent_is_given_up(play: Run) -> None:
    def silent(*_: object) -> Reply:
        time.sleep(3)
        return MOVE

    played, _ = play(silent, timeoutSeconds=1, patienceSeconds=0)
    assert {fault.said for fault in played.broken} == {"no answer within 1 s, one try"}


def test_a_wrong_key_is_nobodys_episode(play: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENV_API_KEY, "hunter2")
    with pytest.raises(PermanentError, match=r"refuses the key \(HTTP 401\)") as caught:
        play(lambda *_: Reply(401, body=b"hunter2"))
    assert "hunter2" not in str(caught.value)


def test_requests_carry_the_key_and_the_settings(
    play: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENV_API_KEY, "a-key")
    how = replace(HOW, temperature=0.7, stop=("\n",))
    _, endpoint = play(lambda *_: MOVE, how)
    assert set(endpoint.keys) == {"Bearer a-key"}
    firsts = [body for body in endpoint.asked if len(body["messages"]) == 1]
    assert {(b["model"], b["temperature"], b["max_tokens"]) for b in firsts} == {
        ("policy", 0.7, 16)
    }
    assert all(body["stop"] == ["\n"] for body in firsts)
    assert len({body["seed"] for body in endpoint.asked}) == len(endpoint.asked)
    _, again = play(lambda *_: MOVE, how)
    assert sorted(b["seed"] for b in again.asked) == sorted(b["seed"] for b in endpoint.asked)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(turn("move up\nmove"), id="with it and more"),
        pytest.param(turn("move up\n", "length"), id="cut behind it"),
    ],
)
def test_a_stop_text_that_a_server_leaves_in_its_answer_ends_the_turn(
    play: Run, base: Base, answer: Reply
) -> None:
    without, _ = play(lambda *_: MOVE)
    played, _ = play(lambda *_: answer, replace(HOW, stop=("\n",)))
    assert played.episodes == without.episodes
    assert played.episodes[0].turns[1].tokens[-1] == base.chat.end


@pytest.mark.parametrize(
    "text, is_learned",
    [
        pytest.param("move up", True, id="plain"),
        pytest.param("move up<|end|>", False, id="a special token as text"),
        pytest.param("move \ufffd", False, id="bytes that were no text"),
        pytest.param("move \ud800", False, id="half a surrogate pair"),
    ],
)
def test_what_is_not_read_back_is_noticed_and_not_learned_from(
    play: Run, text: str, is_learned: bool
) -> None:
    played, _ = play(lambda *_: turn(text))
    turns = [t for e in played.episodes for t in e.turns if t.role == "agent"]
    assert played.unreadable == (0 if is_learned else len(turns))
    assert bool(any(len(render_all(e, 512)[0]) for e in played.episodes)) is is_learned


def test_a_cut_turn_has_no_end_and_a_longer_one_than_asked_for_is_cut(
    play: Run, base: Base
) -> None:
    played, _ = play(lambda *_: turn("move up", "length"))
    assert played.episodes[0].turns[1].tokens[-1] not in base.chat.stops
    played, _ = play(lambda *_: turn("move up " * 50))
    assert {len(t.tokens) for e in played.episodes for t in e.turns if t.role == "agent"} == {16}
    played, _ = play(lambda *_: turn("", "length"))
    assert played.episodes[0].turns[1].tokens == [base.chat.end]
