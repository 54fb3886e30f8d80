"""Trajectories become tokens with a loss on the agent's alone, and lines that read back."""

import re

import pytest

from hansa.core.errors import Corrupt
from hansa_client.trajectory import Episode, Turn, decode, encode, render_all


def episode(*turns: tuple[str, list[int]]) -> Episode:
    return Episode(
        task="maze-1",
        round=1,
        source="exploration",
        seed=5,
        success=True,
        reward=1.0,
        turns=[Turn(role=role, text="x", tokens=tokens) for role, tokens in turns],  # type: ignore[arg-type]
    )


PLAYED = episode(
    ("user", [1, 2]), ("agent", [3, 4]), ("user", [5]), ("agent", [6, 7]), ("user", [])
)


def test_only_the_agents_tokens_are_trained_on() -> None:
    seen = render_all(PLAYED, 100)[0]
    assert seen.tokens == [1, 2, 3, 4, 5, 6, 7]
    assert [t for t, own in zip(seen.tokens, seen.is_agent, strict=True) if own] == [3, 4, 6, 7]


@pytest.mark.parametrize(
    "length, tokens",
    [
        pytest.param(6, [1, 2, 3, 4, 5, 6], id="cut inside an action"),
        pytest.param(5, [1, 2, 3, 4], id="an observation nobody answers is left out"),
        pytest.param(2, [], id="nothing of the agent is left"),
    ],
)
def test_a_trajectory_is_cut_to_the_length(length: int, tokens: list[int]) -> None:
    assert render_all(PLAYED, length)[0].tokens == tokens


def test_a_line_reads_back_as_it_was() -> None:
    line = encode(PLAYED)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert decode(line, "shard") == PLAYED


@pytest.mark.parametrize(
    "change, field",
    [
        pytest.param((b'"success":true', b'"success":"yes"'), "success", id="wrong type"),
        pytest.param((b'"role":"agent"', b'"role":"judge"'), "turns[1].role", id="unknown role"),
        pytest.param((b'"task":"maze-1",', b""), "task", id="missing"),
        pytest.param((b'"reward"', b'"prize"'), "prize", id="unknown field"),
        pytest.param((b"[6,7]", b"[6,-7]"), "turns[3].tokens[1]", id="no token"),
    ],
)
def test_a_wrong_line_names_its_field(change: tuple[bytes, bytes], field: str) -> None:
    with pytest.raises(Corrupt, match=rf"^run/00001: {re.escape(field)}: "):
        decode(encode(PLAYED).replace(*change), "run/00001")
