"""Episodes of harnesses: recorded token by token, played together, learned from chat by chat."""

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hansa.core.errors import WorldBroken
from hansa_client import trajectory
from hansa_client.decoding import choose
from hansa_client.decoding.protocol import TurnRequest
from hansa_client.learners.base import Choice
from hansa_client.models.base_model import Base
from hansa_client.rollout import episodes, tasks
from hansa_client.rollout.episodes import Played, RolloutConfig
from hansa_client.trajectory import render_all
from hansa_worlds import World, make
from tests.support import harness
from tests.support.sources import ROOT

HARNESS = [sys.executable, str(ROOT / "tests/support/harness.py")]
HOW = RolloutConfig(
    temperature=1.0, max_length=256, batch_episodes=4, round=3, source="exploration"
)


@pytest.fixture(autouse=True)
def _allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANSA_WORLD_COMMANDS", " ".join(HARNESS))


def maker(manner: str, **options: Any) -> Callable[[], World]:
    return lambda: make("proxy", {"command": [*HARNESS, manner], **options})


def play(base: Base, manner: str, count: int = 3, **how: Any) -> Played:
    jobs = tasks.choose_held_out_jobs(maker(manner)().tasks("train"), count, seed=11)
    return episodes.play(base, maker(manner), jobs, replace(HOW, **how))


def tokens_of(base: Base, *turns: str) -> list[int]:
    """A chat as `hansa serve` and every other world have it; the agent's turns end."""
    chat = base.chat
    return [*chat.encode_dialogue(turns[:-1]), *chat.encode_actions([turns[-1]])[0]]


def test_the_recorded_turns_are_the_episode(base: Base) -> None:
    played = play(base, "talk", temperature=0.0).episodes
    assert {episode.success for episode in played} == {True, False}
    for episode in played:
        assert episode.success is (int(episode.task.removeprefix("task-")) % 2 == 0)
        assert episode.reward == 0.5
        assert [turn.role for turn in episode.turns] == ["user", "agent"] * 3 + ["user"]
        (sequence,) = render_all(episode, 256)
        said = [turn.text for turn in episode.turns[:-1]]
        assert sequence.tokens == tokens_of(base, *said), "what the model read and wrote"
        own = [t for t, is_own in zip(sequence.tokens, sequence.is_agent, strict=True) if is_own]
        assert own == [t for turn in episode.turns[1::2] for t in turn.tokens]
        assert episode.turns[0].messages == [harness.user(harness.OPENING)]
        again = trajectory.decode(trajectory.encode(episode), "here")
        assert again == episode


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_equal_seeds_give_equal_episodes_whoever_plays_beside_them(
    base: Base, temperature: float
) -> None:
    together = play(base, "talk", temperature=temperature).episodes
    assert play(base, "talk", temperature=temperature, batch_episodes=1).episodes == together


@pytest.fixture
def models(base: Base, by_library: Base, monkeypatch: pytest.MonkeyPatch) -> dict[str, Base]:
    """One model with both decoders: transformers' own cannot use KV slots here."""
    monkeypatch.setattr(
        choose, "can_use_slots", lambda model, longest: hasattr(model, "reads_kv_slots")
    )
    return {"slots": base, "columns": by_library}


@pytest.mark.parametrize("engine", ["slots", "columns"])
def test_a_changed_chat_is_a_sequence_of_its_own(models: dict[str, Base], engine: str) -> None:
    """Its row begins anew beside rows that continue, and writes what a fresh episode writes."""
    base = models[engine]
    played = play(base, "rewrite", temperature=0.0, max_new_tokens=6)
    assert played.engine == engine
    for episode in played.episodes:
        begins = [turn.begins for turn in episode.turns]
        assert begins == [None, None, True, None, None, None, None]
        first, second = render_all(episode, 256)
        assert (first.continues, second.continues) == (False, True)
        assert second.tokens[: len(episode.turns[2].tokens)] == base.chat.encode_dialogue(
            [harness.NEXT]
        )
        assert sum(second.is_agent) == len(episode.turns[3].tokens + episode.turns[5].tokens)
    alone = play(base, "rewrite", 1, temperature=0.0, max_new_tokens=6).episodes
    assert alone == played.episodes[:1]


def test_a_row_that_begins_anew_reads_nothing_of_before(models: dict[str, Base]) -> None:
    """With the likeliest tokens, an answer depends on what is read and on nothing else."""
    for base in models.values():
        greedy: dict[str, Any] = {"temperature": 0.0, "max_new_tokens": 6}
        played = play(base, "mixed", 4, **greedy).episodes
        rewritten = [episode for episode in played if episode.turns[2].begins]
        assert 0 < len(rewritten) < 4, "others continue beside them"
        fresh = base.chat.encode_dialogue([harness.NEXT])
        request = TurnRequest(row=0, is_first=True, tokens=fresh, budget=6, uniforms=np.zeros(6))
        with choose.open_decoder(base, 1, replace(HOW, **greedy)) as decoder:
            decoder.read([request])
            ((_, written),) = decoder.write(1)
        for episode in rewritten:
            assert episode.turns[2].tokens == fresh
            assert episode.turns[3].tokens == written


def test_each_chat_is_an_example_and_pairs_compare_first_chats(base: Base) -> None:
    played = play(base, "rewrite").episodes
    sequences, weights, _ = Choice(episodes=played, weights=[1.0, 2.0, 3.0]).render(256)
    assert weights == [1.0, 1.0, 2.0, 2.0, 3.0, 3.0]
    assert sum(not sequence.continues for sequence in sequences) == 3
    pairs, *_ = Choice(episodes=played[:2], together=2).render(256)
    assert pairs == [render_all(episode, 256)[0] for episode in played[:2]]


def test_a_turn_ends_at_the_harnesss_stop_text(base: Base) -> None:
    for episode in play(base, "stopped", 4).episodes:
        assert episode.success
        assert "left" not in episode.turns[1].text


@pytest.mark.parametrize("manner", ["crash", "silent", "nonsense", "claim"])
def test_broken_episodes_are_dropped_and_counted(base: Base, manner: str) -> None:
    played = play(base, manner, max_broken=1.0)
    assert played.episodes == [] and len(played.broken) == 3
    assert str(played.broken[0]).startswith("WorldDown at hansa_client/proxy/world.py:")
    with pytest.raises(WorldBroken, match="world proxy failed in 1 of 3 episodes"):
        play(base, manner)
