"""What stops a federation for a while costs it nothing: a person, a lost node, an edit."""

from datetime import timedelta

import pytest

from hansa.plan.job_requests import build_aggregator_assignment
from tests.support.builders import with_spec
from tests.support.guard_plans import guarded, play
from tests.support.simulated_cluster import Cluster

TIMEOUT = 100
RULES = {"roundTimeoutSeconds": TIMEOUT, "startTimeoutSeconds": 30}


def later(cluster: Cluster, seconds: float) -> Cluster:
    cluster.now += timedelta(seconds=seconds)
    return cluster.turn()


def suspended(cluster: Cluster, seconds: float) -> Cluster:
    """The federation after a pause that somebody wanted."""
    cluster.federation = with_spec(cluster.federation, suspend=True)
    later(cluster.turn(), seconds)
    cluster.federation = with_spec(cluster.federation, suspend=False)
    return cluster.turn()


def at_work(cluster: Cluster) -> Cluster:
    for name in cluster.active():
        cluster.set(name, "running", started_at=cluster.now)
    return cluster.turn()


@pytest.mark.parametrize("moment", ["clients", "aggregator", "evaluation"])
def test_the_time_for_an_answer_begins_anew_after_a_suspension(moment: str) -> None:
    cluster = Cluster("maze", rounds=1, participation=RULES).turn()
    if moment != "clients":
        cluster.answer("fed-r1-maze-a1").turn()
    if moment == "evaluation":
        cluster.answer("fed-r1-aggregator-a1").turn()
    stopped = at_work(cluster).active()
    suspended(cluster, 10 * TIMEOUT)
    assert cluster.active() == stopped and cluster.status.phase == "Running"
    at_work(cluster)
    assert later(cluster, TIMEOUT - 1).active() == stopped
    assert later(cluster, 1).active() != stopped


def test_an_aggregator_whose_node_is_lost_is_made_again_in_the_time_of_a_start() -> None:
    cluster = Cluster("maze", participation={**RULES, "retries": 0}).turn()
    cluster.answer("fed-r1-maze-a1").turn()
    lost = {"reason": "Disrupted", "message": "its node is gone", "created_at": cluster.now}
    cluster.set("fed-r1-aggregator-a1", "starting", **lost).turn()
    assert later(cluster, 29).active() == ["fed-r1-aggregator-a1"]
    later(later(cluster, 1), 60)
    assert cluster.active() == ["fed-r1-aggregator-a2"]
    assert "aggregator: its node is gone" in [event.message for event in cluster.events]


def test_an_aggregator_that_waits_for_a_node_is_waited_for() -> None:
    cluster = Cluster("maze", participation=RULES).turn()
    cluster.answer("fed-r1-maze-a1").turn()
    assert later(cluster, 60).active() == ["fed-r1-aggregator-a1"]


def test_the_aggregator_needs_no_more_updates_than_environments_are_left() -> None:
    names = ("babyai", "maze", "textcraft", "wordle")
    cluster = Cluster(*names, participation={"minimumUpdates": 3}).turn()
    left = [e.to_json() for e in cluster.federation.spec.environments if e.name in names[:2]]
    changes = {"environments": left, "participation": {"minimumUpdates": 2}}
    cluster.change(**changes).answer("fed-r1-babyai-a1", "fed-r1-maze-a1").turn()
    current = cluster.status.current
    assert current is not None and len(current.members or []) == 2
    assert build_aggregator_assignment(cluster.federation, current).minimum == 2


def test_who_waits_for_a_refused_spec_learns_that_it_was_seen() -> None:
    cluster = Cluster("maze").turn()
    cluster.change(seed=8)
    assert cluster.status.observed_generation == cluster.federation.metadata.generation
    assert cluster.status.phase == "Failed"


def test_the_success_is_never_that_of_an_adapter_that_was_gone_back_from() -> None:
    cluster = play(guarded(rounds=5), 3, 6, 2)
    assert cluster.status.success == "0.600"
    for _ in range(2):  # round 4: its clients, its aggregator
        names = [name for name in cluster.active() if name.startswith("fed-r4")]
        for name in names:
            report = cluster.requests[name]
            cluster.answer(report.name, **({} if "aggregator" in name else {"successes": 6}))
        cluster.turn()
    adapter = cluster.status.adapter
    assert adapter is not None and adapter.round == 4
    assert cluster.status.success == "0.600"
