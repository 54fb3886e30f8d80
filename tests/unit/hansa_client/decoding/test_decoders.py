"""Every decoder writes what the model would write without a cache, whoever shares its pass."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from hansa_client.decoding import sampling
from hansa_client.decoding.lockstep_decoder import LockstepDecoder
from hansa_client.decoding.protocol import Decoder, StopConditions, TurnRequest
from hansa_client.decoding.slot_decoder import SlotDecoder, split_requests
from hansa_client.models import slot_attention
from hansa_client.models.base_model import Base
from hansa_client.rollout.live_episodes import RolloutConfig

READS = [
    ["Reach the goal.", "The goal is at position 4, 2."],
    ["There is a wall above you. There are walls to your left.", "You"],
    ["Your current position is at position 1, 1. " * 12, "There are no walls near you."],
]
HOW = RolloutConfig(temperature=0.0, max_length=500, batch_episodes=3, round=1, source="evaluation")


def greedy(base: Base, tokens: list[int], most: int) -> list[int]:
    """The slow way: the whole text through the model again for each token."""
    written: list[int] = []
    while len(written) < most and not (written and written[-1] in base.chat.stops):
        with torch.inference_mode():
            logits = base.model(input_ids=torch.tensor([tokens + written])).logits
        written.append(int(logits[0, -1].argmax()))
    return written


def turn(row: int, tokens: list[int], budget: int = 6, *, first: bool = False) -> TurnRequest:
    none = np.zeros(budget)
    return TurnRequest(row=row, is_first=first, tokens=tokens, budget=budget, uniforms=none)


def answers(decoder: Decoder, requests: Sequence[TurnRequest]) -> dict[int, list[int]]:
    """What all rows write, however many at a time."""
    decoder.read(requests)
    found: dict[int, list[int]] = {}
    while len(found) < len(requests):
        found |= dict(decoder.write(4))
    return found


def packed(base: Base) -> Decoder:
    return SlotDecoder(base, 3, HOW, StopConditions(base.chat))


def columns(base: Base) -> Decoder:
    return LockstepDecoder(base, 3, 0.0, StopConditions(base.chat))


@pytest.mark.parametrize(
    "make, name",
    [
        pytest.param(packed, "base", id="slots"),
        pytest.param(packed, "by_library", id="slots in a model of transformers"),
        pytest.param(columns, "by_library", id="columns"),
    ],
)
def test_two_turns_of_uneven_rows_equal_the_slow_way(
    make: Callable[[Base], Decoder], name: str, base: Base, request: pytest.FixtureRequest
) -> None:
    own: Base = request.getfixturevalue(name)
    texts = [own.chat.encode_observations(row[:1], first=True)[0] for row in READS]
    with (
        torch.inference_mode(),
        slot_attention.install(own.model) if make is packed else _nothing(),
    ):
        decoder = make(own)
        requests = [turn(row, texts[row], most, first=True) for row, most in enumerate((6, 6, 2))]
        first = answers(decoder, requests)
        news = {row: own.chat.encode_observations(READS[row][1:], first=False)[0] for row in (0, 2)}
        second = answers(decoder, [turn(row, first[row][-1:] + news[row]) for row in (0, 2)])
    for one in requests:
        assert first[one.row] == greedy(base, texts[one.row], one.budget)
    for row, new in news.items():
        assert second[row] == greedy(base, texts[row] + first[row] + new, 6)


def _nothing() -> Any:
    import contextlib

    return contextlib.nullcontext()


def test_a_slot_is_taken_over_while_others_write(base: Base) -> None:
    texts = [base.chat.encode_observations(row[:1], first=True)[0] for row in READS]
    with torch.inference_mode():
        decoder = packed(base)
        decoder.read([turn(0, texts[2], 9, first=True), turn(1, texts[1], 1, first=True)])
        assert [row for row, _ in decoder.write(2)] == [1]
        found = answers(decoder, [turn(1, texts[0], 9, first=True)])
        found |= dict(decoder.write(1))
    assert found == {0: greedy(base, texts[2], 9), 1: greedy(base, texts[0], 9)}


def test_much_to_read_is_read_in_portions() -> None:
    requests = [turn(row, [1] * length) for row, length in enumerate((3, 3, 9, 1, 1))]
    groups = [[one.row for one in group] for group in split_requests(requests, 6)]
    assert groups == [[0, 1], [2], [3, 4]]


@pytest.mark.parametrize(
    "texts, words, expected",
    [
        pytest.param((), "move up", 0, id="a turn continues"),
        pytest.param(("up now",), "move up now you", 2, id="at the token that completes the text"),
        pytest.param(("now", "up"), "move up now", 1, id="at whichever text comes first"),
        pytest.param(("left",), "move up", 0, id="another text"),
    ],
)
def test_a_turn_ends_with_a_text(
    base: Base, texts: tuple[str, ...], words: str, expected: int
) -> None:
    tokens = base.chat.encode_actions([words])[0][:-1]
    assert StopConditions(base.chat, texts).find_end(tokens) == expected
    assert StopConditions(base.chat, texts).find_end([base.chat.end, *tokens]) == 1


@pytest.mark.parametrize(
    "uniform, temperature, token",
    [
        pytest.param(0.0, 1.0, 0, id="the lowest number takes the first token"),
        pytest.param(0.49, 1.0, 0, id="just below its share"),
        pytest.param(0.51, 1.0, 2, id="a token without chance is skipped"),
        pytest.param(0.999999, 1.0, 3, id="the highest number takes the last token"),
        pytest.param(0.999999, 0.0, 0, id="greedy takes the likeliest"),
        pytest.param(0.95, 0.1, 0, id="a low temperature sharpens"),
    ],
)
def test_a_token_is_drawn_by_the_inverse_of_its_distribution(
    uniform: float, temperature: float, token: int
) -> None:
    logits = torch.tensor([[0.5, 0.0, 0.3, 0.2]]).log()
    drawn = sampling.sample(logits, torch.tensor([uniform], dtype=torch.float64), temperature)
    assert drawn.tolist() == [token]


def test_draws_follow_the_distribution() -> None:
    logits = torch.tensor([[0.5, 0.2, 0.3]]).log().expand(4000, 3)
    uniforms = torch.from_numpy(np.random.Generator(np.random.Philox(1)).random(4000))
    counts = torch.bincount(sampling.sample(logits, uniforms, 1.0), minlength=3) / 4000
    assert torch.allclose(counts, torch.tensor([0.5, 0.2, 0.3]), atol=0.03)
