"""Intervals and the bootstrap against scipy, which computes the same by other means."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hansa.compare.statistics import Rate, summarize
from hansa.core import stats as intervals

stats = pytest.importorskip("scipy.stats", reason="scipy comes with the extra dev")


@given(st.integers(1, 2000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_is_scipys(counts: tuple[int, int]) -> None:
    found = intervals.rate_interval(counts[0] / counts[1], counts[1])
    expected = stats.binomtest(*counts).proportion_ci(0.95, method="wilson")
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_the_normal_and_students_points_are_scipys() -> None:
    assert pytest.approx(stats.norm.ppf(0.975), rel=1e-12) == intervals.Z95
    for freedom in range(1, 200):
        expected = stats.t.ppf(0.975, freedom)
        assert intervals._student_quantile(freedom) == pytest.approx(expected, rel=1e-3), freedom


@pytest.mark.parametrize("success, episodes", [(0.5, 20), (0.1, 50), (0.9, 200)])
def test_one_seeds_interval_is_jeffreys(success: float, episodes: int) -> None:
    rate = Rate(success=success, effective=episodes, weight=episodes)
    found = summarize({1: {"maze": rate}}).macro
    won = success * episodes
    expected = stats.beta(won + 0.5, episodes - won + 0.5).ppf([0.025, 0.975])
    assert (found.low, found.high) == pytest.approx(tuple(expected), abs=0.01)


def test_many_episodes_leave_the_percentile_bootstrap_over_seeds() -> None:
    rates = [0.31, 0.42, 0.45, 0.52, 0.55, 0.58, 0.61, 0.73]
    runs = {
        seed: {"maze": Rate(success=rate, effective=1e12, weight=1)}
        for seed, rate in enumerate(rates)
    }
    found = summarize(runs).environments["maze"]
    drawn = stats.bootstrap(
        (np.array(rates),), np.mean, method="percentile", n_resamples=20_000, rng=7
    ).confidence_interval
    assert (found.low, found.high) == pytest.approx((drawn.low, drawn.high), abs=0.01)
    assert found.value == pytest.approx(np.mean(rates), abs=1e-4)
