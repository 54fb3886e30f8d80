"""Intervals against published figures and at the edges where simpler ones fail."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hansa.intervals import Interval, difference, mean, wilson


@pytest.mark.parametrize(
    ("successes", "episodes", "low", "high"),
    [
        pytest.param(8, 10, 0.4902, 0.9433, id="few episodes give a wide interval"),
        pytest.param(0, 10, 0.0, 0.2775, id="no success still has an upper limit"),
        pytest.param(10, 10, 0.7225, 1.0, id="only successes still have a lower limit"),
        pytest.param(0, 0, 0.0, 1.0, id="without episodes anything is possible"),
    ],
)
def test_wilson_limits(successes: int, episodes: int, low: float, high: float) -> None:
    found = wilson(successes, episodes)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-4)


def test_a_difference_has_newcombes_published_interval() -> None:
    # Newcombe 1998, method 10, 56/70 against 48/80
    found = difference(wilson(56, 70), wilson(48, 80))
    assert (found.low, found.value, found.high) == pytest.approx((0.0524, 0.2, 0.3339), abs=1e-4)


def test_the_mean_of_many_rates_is_surer_than_each() -> None:
    one = wilson(30, 100)
    together = mean([one] * 5)
    assert together is not None
    assert together.value == pytest.approx(0.3)
    assert together.high - together.low < (one.high - one.low) / 2


def test_the_mean_of_nothing_is_nothing() -> None:
    assert mean([]) is None


@given(st.integers(0, 500), st.integers(-5, 600))
def test_limits_enclose_the_rate_and_stay_ratios(episodes: int, successes: int) -> None:
    found = wilson(successes, episodes)
    assert 0 <= found.low <= found.value <= found.high <= 1
    change = difference(found, Interval(0.0, 0.5, 1.0))
    assert -1 <= change.low <= change.value <= change.high <= 1
