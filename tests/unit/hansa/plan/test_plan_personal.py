"""What silos serve themselves, as the status tells it."""

from datetime import timedelta

import pytest

from hansa.api.spec import MAX_SECONDS
from tests.support.builders import with_spec
from tests.support.simulated_cluster import Cluster


@pytest.mark.parametrize(
    "mode, calls",
    [
        pytest.param("best", [("mix-50", "0.800")], id="each silo has chosen"),
        pytest.param("none", [("", "")], id="nobody chooses"),
    ],
)
def test_the_status_says_what_each_silo_serves_and_how_that_does(
    mode: str, calls: list[tuple[str, str]]
) -> None:
    cluster = Cluster("maze", rounds=1, personalization=mode).turn()
    cluster.answer("fed-r1-maze-a1").turn()
    cluster.answer("fed-r1-aggregator-a1").turn()
    cluster.answer("fed-e1-maze-a1").turn()
    assert cluster.status.phase == "Succeeded"
    assert [(line.serves, line.personal) for line in cluster.status.environments] == calls
    assert cluster.status.environments[0].success == "0.500"  # the global adapter's, as ever


@pytest.mark.parametrize(
    "mode, alone, rounds, patience",
    [
        pytest.param("best", False, 2, 300, id="it may evolve on as long as there were rounds"),
        pytest.param("finetune", False, 1, 200, id="the same without mixes"),
        pytest.param("interpolate", False, 2, 100, id="mixes cost no round"),
        pytest.param("none", False, 2, 100, id="an evaluation is as long as a round at most"),
        pytest.param("none", True, 2, 300, id="alone as long as all rounds, and once more"),
        pytest.param("best", True, 2, 500, id="and as many again where it may also evolve on"),
    ],
)
def test_the_last_step_waits_for_the_rounds_that_a_silo_plays_alone(
    mode: str, alone: bool, rounds: int, patience: int
) -> None:
    fields = {"participation": {"roundTimeoutSeconds": 100}, "evaluation": {"alone": alone}}
    cluster = Cluster("maze", rounds=rounds, personalization=mode, **fields)
    for _ in range(rounds):
        cluster.run_round()
    name = f"fed-e{rounds}-maze-a1"
    cluster.set(name, "running", started_at=cluster.now).turn()
    opened = cluster.now
    cluster.now = opened + timedelta(seconds=patience - 1)
    assert cluster.turn().status.phase != "Succeeded" and name in cluster.active()
    cluster.now = opened + timedelta(seconds=patience)
    cluster.turn()
    assert cluster.status.phase == "Succeeded" and name not in cluster.active()
    assert f"did not answer within {patience} s" in cluster.status.environments[0].message


def test_what_silos_served_is_forgotten_when_they_no_longer_choose() -> None:
    cluster = Cluster("maze", rounds=1, personalization="best").run_round()
    cluster.answer("fed-e1-maze-a1").turn()
    assert cluster.status.environments[0].serves == "mix-50"
    cluster.federation = with_spec(cluster.federation, rounds=2, personalization="none")
    cluster.run_round()
    assert cluster.status.environments[0].serves == cluster.status.environments[0].personal == ""


def test_no_wait_is_longer_than_a_spec_may_ask_for() -> None:
    rules = {"roundTimeoutSeconds": MAX_SECONDS}
    cluster = Cluster("maze", rounds=1, personalization="best", participation=rules).run_round()
    current = cluster.status.current
    assert current is not None and current.participation.round_timeout_seconds == MAX_SECONDS
