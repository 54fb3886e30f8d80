"""One environment's word against the others': under `scope: environment` it stops them seldom."""

import pytest

from hansa.plan.policy import guard
from tests.support.builders import make_report
from tests.support.guard_plans import outcomes, start
from tests.support.simulated_cluster import Cluster

NAMES = ("babyai", "maze", "textcraft", "webshop", "wordle")


def federation(rounds: int = 10) -> Cluster:
    rule = {"maxDrop": 0.1, "scope": "environment"}
    return Cluster(*NAMES, rounds=rounds, guard=rule).turn()


def play(cluster: Cluster, *liars: str, honest: int = 5, lie: int = 2) -> Cluster:
    """One round, or the last evaluation: liars claim that every adapter but the base is worse."""
    for job in cluster.active():
        request = cluster.requests[job]
        lies = request.environment in liars and request.assignment.start.round
        report = make_report(request, successes=lie if lies else honest)
        cluster.set(job, "succeeded", report=report)
    cluster.turn()
    cluster.answer(*[job for job in cluster.active() if "aggregator" in job])
    return cluster.turn()


@pytest.mark.attack(
    by="a silo",
    does="lies about every adapter under `guard.scope: environment`",
    result="counts once in five rounds, and is named",
)
def test_a_liar_rolls_ten_rounds_back_twice_at_most() -> None:
    cluster = federation()
    for _ in range(11):
        play(cluster, "maze")
    assert cluster.status.phase == "Succeeded"
    assert outcomes(cluster).count("rolled-back") == 2
    assert outcomes(cluster).count("aggregated") >= 6
    assert cluster.status.adapter.round > 0


def test_an_overruled_veto_is_told_and_named_until_the_next_verdict() -> None:
    cluster = federation()
    for _ in range(2):
        play(cluster, "maze")
    assert outcomes(cluster) == ["base", "rejected", "rolled-back"]  # the first veto counts
    assert cluster.status.guard.vetoes == {"maze": 2}
    for _ in range(2):
        play(cluster, "maze")
    assert outcomes(cluster)[-2:] == ["aggregated", "aggregated"]
    degraded = cluster.condition("Degraded")
    assert (degraded.status, degraded.reason) == ("True", "VetoOverruled")
    sentence = "validation success of maze fell from 50.0% (round 0) to 20.0% (round 3)"
    assert degraded.message.startswith(sentence)
    assert (
        "it alone caused a rollback before, in round 2: the mean of all environments decides"
        in degraded.message
    )
    assert [e.warning for e in cluster.events if e.reason == "VetoOverruled"] == [True]
    play(cluster)
    assert cluster.condition("Degraded").status == "False"


def test_after_five_rounds_it_may_stop_them_once_more() -> None:
    cluster = federation()
    for _ in range(2):
        play(cluster, "maze")
    for _ in range(4):
        play(cluster)
    play(cluster, "maze")  # round 7, five after round 2
    assert outcomes(cluster)[-1] == "rolled-back"
    assert cluster.status.guard.vetoes == {"maze": 7}


def test_another_environment_has_a_veto_of_its_own() -> None:
    cluster = federation()
    for liar in ("maze", "maze", "wordle", "wordle"):
        play(cluster, liar)
    assert outcomes(cluster).count("rolled-back") == 2
    assert cluster.status.guard.vetoes == {"maze": 2, "wordle": 4}


@pytest.mark.parametrize(
    ("liars", "lie"),
    [
        pytest.param(("maze", "wordle"), 3, id="two environments fell"),
        pytest.param(("maze",), 0, id="the mean fell"),
    ],
)
def test_what_others_confirm_is_no_veto(liars: tuple[str, ...], lie: int) -> None:
    cluster = federation()
    for _ in range(4):
        play(cluster, *liars, honest=6, lie=lie)
    assert outcomes(cluster).count("rolled-back") == 2
    assert cluster.status.guard.vetoes == {}


def test_the_last_adapter_is_not_lost_to_a_spent_veto() -> None:
    cluster = federation(rounds=3)
    for _ in range(4):
        play(cluster, "maze")
    assert cluster.status.phase == "Succeeded"
    assert cluster.status.adapter.round == 3
    assert cluster.condition("Degraded").reason == "VetoOverruled"


def test_in_a_mean_nobody_has_a_veto() -> None:
    cluster = Cluster(*NAMES, rounds=4, guard={"maxDrop": 0.1}).turn()
    for _ in range(3):
        play(cluster, "maze")
    assert outcomes(cluster) == ["base", "aggregated", "aggregated", "aggregated"]
    assert start(cluster, "fed-r4-maze-a1") == 3
    assert guard.VETO_ROUNDS == 5
