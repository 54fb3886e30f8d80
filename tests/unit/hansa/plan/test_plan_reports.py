"""A report speaks of its own Job alone: whatever else it claims, it counts as lost."""

from typing import Any

import pytest

from hansa.api.assignment import ClientReport, EvaluateReport
from tests.support.builders import make_report
from tests.support.simulated_cluster import Cluster


def claim(cluster: Cluster, job: str, **changes: Any) -> Cluster:
    """A Job's own report with some of its claims exchanged."""
    report = make_report(cluster.requests[job]).model_copy(update=changes)
    return cluster.set(job, "succeeded", report=report).turn()


def evaluation(cluster: Cluster, job: str, round_: int) -> Any:
    """A perfect evaluation, of the adapter of any round."""
    report: ClientReport | EvaluateReport = make_report(cluster.requests[job], successes=10)
    assert report.evaluation
    return report.evaluation.model_copy(update={"round": round_})


def state(cluster: Cluster, name: str) -> str:
    return next(e.state for e in cluster.status.current.environments if e.name == name)


@pytest.mark.attack(
    by="a silo",
    does="rewrites earlier rounds' success by its report",
    result="the report counts as lost",
)
@pytest.mark.parametrize("round_", [0, 2, 3, 9], ids=lambda r: f"round {r}")
def test_a_report_cannot_rewrite_the_success_of_another_round(round_: int) -> None:
    cluster = Cluster("maze", "wordle", rounds=4).run_round().turn()
    before = [entry.success for entry in cluster.status.history]
    job = "fed-r2-maze-a1"  # it was asked for the adapter of round 1
    claim(cluster, job, evaluation=evaluation(cluster, job, round_))
    assert [entry.success for entry in cluster.status.history] == before
    assert state(cluster, "maze") == "Retrying"


def test_the_same_client_may_answer_again_and_honestly() -> None:
    cluster = Cluster("maze", rounds=4).run_round().turn()
    job = "fed-r2-maze-a1"
    claim(cluster, job, evaluation=evaluation(cluster, job, 0))
    cluster.plan_at(1).answer("fed-r2-maze-a2", successes=7).turn()
    assert [entry.success.get("maze") for entry in cluster.status.history] == [0.5, 0.7]
    assert cluster.active() == ["fed-r2-aggregator-a1"]


@pytest.mark.attack(
    by="a silo",
    does="reports in another silo's name",
    result="the report counts as lost",
)
@pytest.mark.parametrize("job", ["fed-r1-maze-a1", "fed-e1-maze-a1"])
def test_a_report_of_another_environment_is_a_lost_one(job: str) -> None:
    cluster = Cluster("maze", "wordle", rounds=1).turn()
    if job not in cluster.requests:
        cluster.run_round()
    claim(cluster, job, environment=1)
    assert state(cluster, "maze") == "Retrying"


def test_the_last_evaluation_is_of_the_last_adapter_alone() -> None:
    cluster = Cluster("maze", rounds=1).run_round()
    job = "fed-e1-maze-a1"
    claim(cluster, job, evaluation=evaluation(cluster, job, 0))
    assert cluster.status.history[0].success == {"maze": 0.5}
    assert state(cluster, "maze") == "Retrying"


def test_an_evaluation_that_nobody_asked_for_is_not_taken() -> None:
    cluster = Cluster("maze", rounds=3, evaluation={"everyRounds": 2}).run_round().turn()
    assert not cluster.requests["fed-r2-maze-a1"].assignment.evaluate
    asked = evaluation(cluster, "fed-r1-maze-a1", 1)
    claim(cluster, "fed-r2-maze-a1", evaluation=asked)
    assert cluster.status.history[1].success == {}
    assert state(cluster, "maze") == "Retrying"


def test_who_goes_on_from_its_own_update_tells_of_that_one() -> None:
    cluster = Cluster("babyai", "maze", rounds=3, aggregation={"strategy": "none"}).turn()
    cluster.answer("fed-r1-babyai-a1").answer("fed-r1-maze-a1", trained=False).turn()
    cluster.answer("fed-r2-babyai-a1").turn()
    claim(cluster, "fed-r2-maze-a1", evaluation=evaluation(cluster, "fed-r2-maze-a1", 1))
    assert state(cluster, "babyai") == "Updated"  # of its update of round 1
    assert state(cluster, "maze") == "Retrying"  # it still has the base


def test_who_stays_when_another_leaves_is_asked_again_under_its_new_number() -> None:
    cluster = Cluster("babyai", "maze", participation={"minimumUpdates": 1}).turn()
    left = [e for e in cluster.federation.spec.environments if e.name == "maze"]
    spec = cluster.federation.spec.model_copy(update={"environments": left})
    cluster.federation = cluster.federation.model_copy(update={"spec": spec})
    cluster.answer("fed-r1-maze-a1").turn()
    cluster.plan_at(1).answer("fed-r1-maze-a2").turn()
    assert cluster.active() == ["fed-r1-aggregator-a1"]
