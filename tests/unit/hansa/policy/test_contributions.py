"""What silos measure of each other, as the status and people read it."""

from typing import Any

import pytest

from hansa.contributions import Measured, Vote, Worth
from hansa.policy.contributions import record, sentence
from tests.builders import make_report
from tests.unit.hansa.test_plan import Cluster

MEASURED = {"contributions": {}}


def run(votes: dict[str, list[Vote]], **spec: Any) -> Cluster:
    """A federation of one round whose last adapter each silo has measured."""
    cluster = Cluster(rounds=1, **{"evaluation": MEASURED, **spec}).run_round()
    for name, cast in votes.items():
        vote(cluster, f"fed-e1-{name}-a1", cast)
    return cluster


def vote(cluster: Cluster, job: str, cast: list[Vote]) -> None:
    report = make_report(cluster.requests[job])
    told = report.evaluation.model_copy(update={"contributions": cast})
    cluster.set(job, "succeeded", report=report.model_copy(update={"evaluation": told})).turn()


def test_the_status_says_what_each_silo_brings_the_others() -> None:
    cluster = run(
        {
            "babyai": [(1, 1000, 100, 1), (2, -2000, 300, 1)],
            "maze": [(0, 0, 500, 1), (2, -1000, 300, 1)],
            "wordle": [(0, 100, 500, 1), (1, 500, 100, 1)],
        }
    )
    said = {line.name: line.contribution for line in cluster.status.environments}
    assert said == {
        "babyai": "brings the others +0.5 points (-6.4 to +7.4) in 1 round: no difference shows",
        "maze": "brings the others +7.5 points (+6.1 to +8.9) in 1 round",
        "wordle": "costs the others 15.0 points (10.8 to 19.2) in 1 round",
    }
    assert cluster.status.phase == "Succeeded"
    found = cluster.status.contributions
    assert found is not None and found["maze"].worth["wordle"].value == -0.1


@pytest.mark.parametrize(
    "cast",
    [
        pytest.param([(1, 0, 0, 1)], id="of itself"),
        pytest.param([(3, 0, 0, 1)], id="of nobody"),
        pytest.param([(0, 1, 1, 1), (0, 2, 1, 1)], id="twice of one"),
    ],
)
def test_a_report_that_votes_as_nobody_may_is_as_good_as_lost(cast: list[Vote]) -> None:
    cluster = run({"maze": cast})
    assert cluster.status.contributions is None
    line = next(e for e in cluster.status.environments if e.name == "maze")
    assert (line.state, line.message) == ("Retrying", "report lost")


def test_votes_that_nobody_asked_for_are_as_good_as_lost() -> None:
    cluster = run({"maze": [(0, 1, 1, 1)]}, evaluation={})
    assert cluster.status.contributions is None
    line = next(e for e in cluster.status.environments if e.name == "maze")
    assert (line.state, line.message) == ("Retrying", "report lost")


def test_an_older_adapter_measured_again_takes_nothing_back() -> None:
    status = run({"maze": [(0, 100, 10, 1)]}).status
    names = [line.name for line in status.environments]
    later = record(status, "maze", 5, [(0, 300, 10, 2)], names)
    assert record(later, "maze", 4, [(0, 900, 10, 1)], names) == later
    assert record(later, "maze", 5, None, names) == later
    assert later.contributions and later.contributions["maze"].worth["babyai"].value == 0.03


def test_who_has_left_measures_nothing_any_more() -> None:
    status = run({"maze": [(0, 100, 10, 1)]}).status
    left = record(status, "babyai", 2, [(1, 0, 10, 1)], ["babyai", "wordle"])
    assert left.contributions is not None and set(left.contributions) == {"babyai"}


def test_nothing_is_said_where_nobody_knows() -> None:
    assert sentence("maze", {}) == ""
    word = Measured(round=1, worth={"maze": Worth(value=0.0, error=0.01, rounds=3)})
    own = {"maze": word}
    assert sentence("maze", own) == ""
    assert sentence("maze", {"wordle": word}).startswith("brings the others +0.0 points (-2.0 to")
