"""Sampling with settings of each row: what it draws is what it would draw alone."""

import pytest
import torch

from hansa_client.decoding.sampling import sample, sample_each

LOGITS = torch.randn(64, 50, generator=torch.Generator().manual_seed(7))
UNIFORM = torch.rand(64, generator=torch.Generator().manual_seed(8), dtype=torch.float64)


@pytest.mark.parametrize("temperature", [0.0, 0.5, 1.0, 2.0])
def test_equal_settings_draw_what_sample_draws(temperature: float) -> None:
    each = sample_each(LOGITS, UNIFORM, [temperature] * 64, [1.0] * 64)
    assert torch.equal(each, sample(LOGITS, UNIFORM, temperature))


def test_rows_of_other_settings_change_nothing_of_a_row() -> None:
    temperatures = [(0.0, 0.7, 1.0, 2.0)[row % 4] for row in range(64)]
    top_ps = [(1.0, 0.5, 0.9)[row % 3] for row in range(64)]
    together = sample_each(LOGITS, UNIFORM, temperatures, top_ps)
    for row in range(64):
        own = slice(row, row + 1)
        alone = sample_each(LOGITS[own], UNIFORM[own], temperatures[own], top_ps[own])
        assert together[row] == alone[0]


@pytest.mark.parametrize("top_p", [0.05, 0.3, 0.8])
def test_top_p_draws_only_from_the_likeliest(top_p: float) -> None:
    drawn = sample_each(LOGITS, UNIFORM, [1.0] * 64, [top_p] * 64)
    probabilities = torch.softmax(LOGITS.double(), dim=-1)
    own = probabilities.gather(1, drawn[:, None])
    likelier = torch.where(probabilities > own, probabilities, 0.0).sum(-1)
    assert bool((likelier < top_p).all())


def test_a_top_p_of_next_to_nothing_is_greedy() -> None:
    drawn = sample_each(LOGITS, UNIFORM, [1.0] * 64, [1e-12] * 64)
    assert torch.equal(drawn, LOGITS.argmax(-1))
