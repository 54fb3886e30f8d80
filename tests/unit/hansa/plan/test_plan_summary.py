"""What a person reads in the status after a plan: what repeats are worth, where adapters are."""

import pytest

from tests.support.builders import make_report
from tests.support.simulated_cluster import Cluster


@pytest.mark.parametrize(
    "changed, field, shown",
    [
        pytest.param(
            {"effective": 31.256}, "effective", {"maze": 31.26}, id="tasks played more than once"
        ),
        pytest.param({"effective": None}, "effective", {}, id="each task was played once"),
        pytest.param({"episodes": 0, "successes": 0}, "success", {}, id="nothing was played"),
    ],
)
def test_the_history_has_what_episodes_are_worth(changed, field, shown):
    cluster = Cluster("maze", "wordle").turn()
    report = make_report(cluster.requests["fed-r1-maze-a1"])
    evaluation = report.evaluation.model_copy(update=changed)
    report = report.model_copy(update={"evaluation": evaluation})
    cluster.set("fed-r1-maze-a1", "succeeded", report=report).turn()
    assert getattr(cluster.status.history[0], field) == shown


def test_a_federation_that_lost_its_storage_is_refused_and_has_no_address_for_its_best_adapter():
    cluster = Cluster("maze", "wordle").run_round()
    cluster.answer(*cluster.active(), successes=9).turn()
    assert cluster.status.best.uri == "s3://bucket/run/global/00001/"
    cluster.change(storage=None)
    assert cluster.condition("Accepted").reason == "ImmutableFieldChanged"
    assert "spec.storage.s3: got" in cluster.condition("Accepted").message
    assert (cluster.status.best.round, cluster.status.best.uri) == (1, "")
