"""Decoding with cached keys writes what the model would write without a cache."""

import numpy as np
import pytest
import torch

from hansa_client import decode
from hansa_client.decode import Decoder
from hansa_client.model import Base

READS = [
    ["Reach the goal.", "The goal is at position 4, 2."],
    ["There is a wall above you. There are walls to your left.", "You"],
    ["Your current position is at position 1, 1. " * 12, "There are no walls near you."],
]
NO_LUCK = np.zeros((3, 6))


def greedy(base: Base, tokens: list[int], most: int) -> list[int]:
    """The slow way: the whole text through the model again for each token."""
    written: list[int] = []
    while len(written) < most and not (written and written[-1] in base.chat.stops):
        with torch.inference_mode():
            logits = base.model(input_ids=torch.tensor([tokens + written])).logits
        written.append(int(logits[0, -1].argmax()))
    return written


def test_two_turns_of_uneven_rows_equal_the_slow_way(base: Base) -> None:
    decoder = Decoder(base, 3)
    texts = [base.chat.observations(row[:1], first=True)[0] for row in READS]
    with torch.inference_mode():
        first = decoder.write(texts, [6, 6, 2], NO_LUCK, 0.0)
        assert first == [greedy(base, t, n) for t, n in zip(texts, [6, 6, 2], strict=True)]
        decoder.keep([0, 2])
        kept = [(texts[i], first[i], READS[i][1]) for i in (0, 2)]
        news = [base.chat.observations([text], first=False)[0] for _, _, text in kept]
        unread = [own[-1:] + new for (_, own, _), new in zip(kept, news, strict=True)]
        second = decoder.write(unread, [6, 6], NO_LUCK[:2], 0.0)
    whole = [text + own + new for (text, own, _), new in zip(kept, news, strict=True)]
    assert second == [greedy(base, tokens, 6) for tokens in whole]


def test_a_growing_cache_holds_what_a_plain_one_holds() -> None:
    from transformers.cache_utils import DynamicLayer

    from hansa_client import library_cache

    torch.manual_seed(0)
    growing = library_cache.growing(DynamicLayer())
    plain = DynamicLayer()
    for width in (3, 1, 200, 1, 1):
        keys, values = torch.randn(4, 2, width, 8), torch.randn(4, 2, width, 8)
        ours, theirs = growing.update(keys, values), plain.update(keys, values)
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
    for layer in (growing, plain):
        layer.batch_select_indices(torch.tensor([3, 1]))
    assert torch.equal(growing.keys, plain.keys)
    more = torch.randn(2, 2, 1, 8)
    assert torch.equal(growing.update(more, more)[1], plain.update(more, more)[1])


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
    drawn = decode.sample(logits, torch.tensor([uniform], dtype=torch.float64), temperature)
    assert drawn.tolist() == [token]


def test_draws_follow_the_distribution() -> None:
    logits = torch.tensor([[0.5, 0.2, 0.3]]).log().expand(4000, 3)
    uniforms = torch.from_numpy(np.random.Generator(np.random.Philox(1)).random(4000))
    counts = torch.bincount(decode.sample(logits, uniforms, 1.0), minlength=3) / 4000
    assert torch.allclose(counts, torch.tensor([0.5, 0.2, 0.3]), atol=0.03)
