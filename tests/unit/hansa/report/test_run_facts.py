"""Base and last adapter are compared where both were evaluated, and noise is in the intervals."""

import pytest

from hansa.api.privacy import Privacy
from hansa.api.status import HistoryEntry
from hansa.report.run_facts import Score, build_scores, compare_scores, describe_success
from tests.support.builders import make_federation

PRIVACY = {"epsilon": 8.0, "delta": 1e-5, "evaluationNoise": 5.0}


def scores(**ratios: float) -> dict[str, Score]:
    return {name: Score(ratio=ratio, episodes=50) for name, ratio in ratios.items()}


def test_a_silo_that_left_does_not_lift_the_mean() -> None:
    both = compare_scores(scores(maze=0.46, webshop=0.28), scores(maze=0.88))
    assert both
    assert (both.environments, both.first.value, both.last.value) == (("maze",), 0.46, 0.88)
    assert both.change.low < 0.42 < both.change.high


@pytest.mark.parametrize(
    "first, last, sentence",
    [
        pytest.param(
            scores(maze=0.46, webshop=0.28),
            scores(maze=0.88),
            "success on held-out tasks in maze: 46.0% -> 88.0% (2 rounds), +42.0 points "
            "(95 %: +24.0 to +56.5); webshop evaluated only one of both",
            id="one left",
        ),
        pytest.param(
            scores(maze=0.46),
            scores(labyrinth=0.88),
            "success on held-out tasks: not compared, no environment evaluated base and last",
            id="renamed",
        ),
    ],
)
def test_the_last_line_of_a_run_says_what_it_compares(
    first: dict[str, Score], last: dict[str, Score], sentence: str
) -> None:
    assert describe_success(first, last, "2 rounds", make_federation().spec) == sentence


def test_noised_figures_are_marked_and_their_intervals_contain_the_noise() -> None:
    plain = make_federation().spec
    noised = plain.model_copy(update={"privacy": Privacy.model_validate(PRIVACY)})
    entry = HistoryEntry(round=0, outcome="base", success={"maze": 0.5}, episodes={"maze": 50})
    exact, wide = (build_scores(entry, spec)["maze"].interval for spec in (plain, noised))
    assert wide.value == exact.value
    assert wide.high - wide.value == pytest.approx(
        ((exact.high - exact.value) ** 2 + (1.96 * 5 / 50) ** 2) ** 0.5, abs=1e-3
    )
    line = describe_success(scores(maze=0.1), scores(maze=0.5), "1 round", noised)
    assert line.endswith("; with the noise of spec.privacy")
