"""The strategy `none` in the plan: no aggregator, and everybody's own last update as its start."""

from hansa.api.status import FederationStatus
from tests.support.simulated_cluster import Cluster


def apart(**fields):
    return Cluster("babyai", "maze", aggregation={"strategy": "none"}, **fields).turn()


def own(status: FederationStatus) -> dict[str, int]:
    return {line.name: line.adapter.round for line in status.environments if line.adapter}


def starts(cluster: Cluster, *names: str) -> list[tuple[int, bool]]:
    client_assignment = [cluster.requests[name].assignment for name in names]
    return [(assignment.start.round, assignment.own_start) for assignment in client_assignment]


def test_a_round_ends_without_an_aggregator_and_the_next_starts_from_each_ones_own():
    cluster = apart().answer("fed-r1-babyai-a1", "fed-r1-maze-a1").turn()
    assert not [name for name in cluster.requests if "aggregator" in name]
    assert cluster.status.adapter is None
    assert own(cluster.status) == {"babyai": 1, "maze": 1}
    assert cluster.status.environments[1].adapter.uri == "s3://bucket/run/updates/maze/00001/"
    assert starts(cluster, "fed-r1-maze-a1") == [(0, False)]
    assert starts(cluster, "fed-r2-babyai-a1", "fed-r2-maze-a1") == [(1, True), (1, True)]
    digests = {
        cluster.requests[f"fed-r2-{name}-a1"].assignment.start.sha256 for name in ("babyai", "maze")
    }
    assert len(digests) == 2


def test_who_had_nothing_to_learn_from_goes_on_from_where_it_was():
    cluster = apart().answer("fed-r1-babyai-a1")
    cluster.answer("fed-r1-maze-a1", trained=False).turn()
    assert own(cluster.status) == {"babyai": 1}
    assert starts(cluster, "fed-r2-babyai-a1", "fed-r2-maze-a1") == [(1, True), (0, False)]
    assert [entry.outcome for entry in cluster.status.history] == ["base", "apart"]
    assert cluster.status.history[1].updates == "1/2"


def test_after_the_last_round_each_ones_own_adapter_is_measured():
    cluster = apart().answer("fed-r1-babyai-a1", "fed-r1-maze-a1").turn()
    cluster.answer("fed-r2-babyai-a1", "fed-r2-maze-a1").turn()
    assert starts(cluster, "fed-e2-babyai-a1", "fed-e2-maze-a1") == [(2, True), (2, True)]
    cluster.answer("fed-e2-babyai-a1", "fed-e2-maze-a1", successes=9).turn()
    assert cluster.status.phase == "Succeeded"
    assert cluster.status.history[-1].success == {"babyai": 0.9, "maze": 0.9}
    assert cluster.status.best.round == 2
    assert cluster.status.best.uri == ""


def test_a_federation_that_shares_again_starts_from_what_it_last_shared():
    from tests.support.builders import with_spec

    cluster = apart(rounds=3).answer("fed-r1-babyai-a1", "fed-r1-maze-a1").turn()
    cluster.federation = with_spec(cluster.federation, aggregation={"strategy": "mean"})
    cluster.answer("fed-r2-babyai-a1", "fed-r2-maze-a1").turn()
    assert cluster.status.adapter is None  # round 2 was opened apart
    assert starts(cluster, "fed-r3-maze-a1") == [(0, False)]
