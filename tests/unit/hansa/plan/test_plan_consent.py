"""A Secret that does not consent yet: the round waits for it and says what to type."""

from tests.support.builders import later
from tests.support.simulated_cluster import Cluster

LINE = "Secret silent does not consent to this use; its owner consents by: kubectl patch"
MISSING = {"reason": "ConsentMissing", "message": LINE}


def blocked(*environments: str, **fields) -> Cluster:
    """A federation whose maze may not use its Secret."""
    cluster = Cluster("maze", *environments, **fields).turn()
    return cluster.set("fed-r1-maze-a1", "starting", **MISSING).turn()


def test_the_condition_says_what_to_type_and_that_it_goes_on_by_itself() -> None:
    cluster = blocked("wordle")
    assert cluster.status.phase == "Running"
    degraded = cluster.condition("Degraded")
    assert (degraded.status, degraded.reason) == ("True", "ConsentMissing")
    assert degraded.message == f"maze: {LINE}; it then continues automatically"
    assert cluster.status.environments[0].message == LINE
    assert cluster.active() == ["fed-r1-maze-a1", "fed-r1-wordle-a1"]


def test_once_the_key_is_there_nothing_is_left_of_it() -> None:
    cluster = blocked().set("fed-r1-maze-a1", "running").turn()
    assert cluster.condition("Degraded").reason == "AllHealthy"
    assert cluster.status.environments[0].attempt == 1
    cluster.answer("fed-r1-maze-a1").turn()
    assert cluster.active() == ["fed-r1-aggregator-a1"]


def test_a_wait_without_end_would_hold_the_gpu_so_a_start_has_its_time() -> None:
    cluster = blocked(participation={"retries": 0, "startTimeoutSeconds": 60})
    assert cluster.wake_at == later(60)
    cluster.plan_at(60)
    assert cluster.status.phase == "Failed"
    assert f"did not start within 60 s: {LINE}" in cluster.condition("Progressing").message
    assert cluster.condition("Degraded").reason == "EnvironmentFailed"


def aggregating() -> Cluster:
    cluster = Cluster("maze").turn().answer("fed-r1-maze-a1").turn()
    return cluster.set("fed-r1-aggregator-a1", "starting", **MISSING).turn()


def test_the_aggregators_secret_is_waited_for_as_well() -> None:
    cluster = aggregating()
    degraded = cluster.condition("Degraded")
    assert (degraded.reason, degraded.message) == (
        "ConsentMissing",
        f"aggregator: {LINE}; it then continues automatically",
    )
    cluster.set("fed-r1-aggregator-a1", "running").turn()
    assert cluster.condition("Degraded").reason == "AllHealthy"


def test_an_aggregator_that_never_got_its_consent_says_so_at_the_end() -> None:
    cluster = aggregating()
    cluster.now = cluster.wake_at
    cluster.turn()
    assert cluster.status.failed.reason == "AggregationFailed"
    assert cluster.status.failed.message.startswith(
        f"round 1: the aggregator did not finish in time: {LINE}"
    )
