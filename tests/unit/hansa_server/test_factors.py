"""The best factors of a rank take less than a whole decomposition, and are the same."""

import numpy as np
import pytest

from hansa_server.factors import (
    compress,
    compute_root,
    compute_singular_values,
    find_largest,
    make_pair_term,
)
from hansa_server.merge_input import Pair


def drawn(seed: int, rank: int, out: int = 60, width: int = 70) -> Pair:
    random = np.random.default_rng(seed)
    return Pair(random.standard_normal((rank, width)), random.standard_normal((out, rank)))


@pytest.mark.parametrize("rank", [1, 4, 31, 32, 64])
def test_the_largest_of_a_flat_spectrum_are_those_of_a_whole_decomposition(rank) -> None:
    core = np.random.default_rng(0).standard_normal((64, 64)) + 50 * np.eye(64)
    u, s, vt = np.linalg.svd(core)
    left, values, right, lost = find_largest(core, rank)
    np.testing.assert_allclose(values, s[:rank], rtol=1e-12)
    best = (u[:, :rank] * s[:rank]) @ vt[:rank]
    np.testing.assert_allclose((left * values) @ right, best, atol=1e-9)
    assert lost == pytest.approx(np.sum(s[rank:] ** 2), abs=1e-9)


def test_a_sum_within_the_rank_loses_nothing() -> None:
    pair = drawn(1, 3)
    _, squares = compress([make_pair_term(pair, 1 / 9)] * 9, 3)
    assert squares.lost == pytest.approx(0.0, abs=1e-12 * squares.whole)
    assert squares.whole == pytest.approx(np.sum((pair.b @ pair.a) ** 2))


@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e6])
def test_weights_and_terms_of_unequal_rank_make_the_sum(factor) -> None:
    terms = [(drawn(1, 2), factor), (drawn(2, 5), -1.0), (drawn(3, 5), 0.5), (drawn(4, 1), 0.0)]
    made, squares = compress([make_pair_term(pair, weight) for pair, weight in terms], 12)
    exact = sum(weight * pair.b @ pair.a for pair, weight in terms)
    np.testing.assert_allclose(made.b @ made.a, exact, atol=1e-7 * np.abs(exact).max())
    assert squares.whole == pytest.approx(np.sum(exact**2))
    values = compute_singular_values([make_pair_term(pair, weight) for pair, weight in terms])
    np.testing.assert_allclose(values[0], np.linalg.norm(exact, 2))


@pytest.mark.parametrize("rank", [0, 3, 8])
def test_a_root_is_found_of_what_is_singular_too(rank) -> None:
    half = np.random.default_rng(0).standard_normal((8, rank))
    inner = half @ half.T
    np.testing.assert_allclose(
        compute_root(inner).T @ compute_root(inner), inner, atol=1e-13 * max(1, rank)
    )
