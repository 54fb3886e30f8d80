"""Intervals against published figures and at the edges where simpler ones fail."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hansa.core.stats import (
    Interval,
    clustered_interval,
    difference,
    effective_episodes,
    mean,
    rate_interval,
)


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
    found = rate_interval(successes / max(1, episodes), episodes)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-4)


def test_a_difference_has_newcombes_published_interval() -> None:
    # Newcombe 1998, method 10, 56/70 against 48/80
    found = difference(rate_interval(56 / 70, 70), rate_interval(48 / 80, 80))
    assert (found.low, found.value, found.high) == pytest.approx((0.0524, 0.2, 0.3339), abs=1e-4)


def test_the_mean_of_many_rates_is_surer_than_each() -> None:
    one = rate_interval(0.3, 100)
    together = mean([one] * 5)
    assert together is not None
    assert together.value == pytest.approx(0.3)
    assert together.high - together.low < (one.high - one.low) / 2


def test_the_mean_of_nothing_is_nothing() -> None:
    assert mean([]) is None


@given(st.integers(0, 500), st.floats(0, 1))
def test_limits_enclose_the_rate_and_stay_ratios(episodes: int, rate: float) -> None:
    found = rate_interval(rate, episodes)
    assert 0 <= found.low <= found.value <= found.high <= 1
    change = difference(found, Interval(0.0, 0.5, 1.0))
    assert -1 <= change.low <= change.value <= change.high <= 1


# -- tasks that are played more than once ---------------------------------------------------------


@given(st.lists(st.booleans(), max_size=60))
def test_with_one_episode_per_task_the_clustered_interval_is_wilsons(won: list[bool]) -> None:
    tasks = {str(n): (int(success), 1) for n, success in enumerate(won)}
    assert clustered_interval(tasks) == rate_interval(sum(won) / max(1, len(won)), len(won))


@pytest.mark.parametrize(
    ("tasks", "low", "high"),
    [
        pytest.param([(4, 4), (0, 4)] * 20, 30, 41, id="episodes of a task end alike: the tasks"),
        pytest.param([(2, 4)] * 40, 140, 160, id="tasks do not differ: nearly the episodes"),
        pytest.param([(0, 4)] * 40, 35, 41, id="nothing succeeded: the tasks"),
        pytest.param([(4, 4)] * 40, 35, 41, id="everything succeeded: the tasks"),
        pytest.param([(3, 8)], 0, 1, id="one task tells nothing about others"),
        pytest.param([(0, 0), (1, 2), (2, 2), (0, 2)], 1, 4, id="a task without episodes"),
        pytest.param([], 0, 0, id="nothing"),
    ],
)
def test_repeats_are_worth_as_many_episodes_as_they_are_different(
    tasks: list[tuple[int, int]], low: float, high: float
) -> None:
    assert low <= effective_episodes(tasks) <= high


def coverage(tasks: int, samples: int, rate: float, alike: float, seed: int) -> list[float]:
    """How often Wilson's and the clustered interval hold the truth; tasks differ by a beta law."""
    draw = random.Random(seed)
    weight = 1 / alike - 1 if alike else 0.0
    trials, held = 400, [0, 0]
    for _ in range(trials):
        found = {}
        for task in range(tasks):
            chance = draw.betavariate(rate * weight, (1 - rate) * weight) if alike else rate
            won = sum(draw.random() < chance for _ in range(samples))
            found[str(task)] = (won, samples)
        plain = rate_interval(
            sum(won for won, _ in found.values()) / (tasks * samples), tasks * samples
        )
        for index, interval in enumerate((plain, clustered_interval(found))):
            held[index] += interval.low <= rate <= interval.high
    return [count / trials for count in held]


@pytest.mark.parametrize("rate", [0.2, 0.5, 0.9])
@pytest.mark.parametrize(("tasks", "samples"), [(25, 4), (25, 8), (60, 4)])
def test_the_clustered_interval_holds_the_truth_where_wilsons_does_not(
    tasks: int, samples: int, rate: float
) -> None:
    plain, own = coverage(tasks, samples, rate, 0.5, seed=1)
    assert plain < 0.85
    assert 0.92 <= own <= 0.99


def test_the_clustered_interval_is_hardly_wider_where_tasks_do_not_differ() -> None:
    plain, own = coverage(25, 4, 0.3, 0.0, seed=2)
    assert 0.92 <= plain <= own <= 0.99


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=30))
def test_any_counts_give_an_interval_around_their_rate(counts: list[tuple[int, int]]) -> None:
    tasks = {str(n): (min(a, b), max(a, b)) for n, (a, b) in enumerate(counts)}
    found = clustered_interval(tasks)
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert (
        effective_episodes(list(tasks.values()))
        <= sum(played for _, played in tasks.values()) + 1e-9
    )
