"""Silos elsewhere that are late, away or out of reach: rounds continue, and no work is lost."""

import pytest

from hansa.api.courier_assignment import CourierReport, LogAdvance
from tests.support.builders import with_spec
from tests.support.letters import Letters, digest, opened


def away(**fields) -> Letters:
    """Round 1 was closed without the clinic, which did not take its order."""
    cluster = (
        opened("clinic", "bank", rounds=3, participation={"minimumUpdates": 2}, **fields)
        .deliver()
        .set("fed-r1-maze-a1", "running")
    )
    cluster.hear("bank", "taken")
    return cluster.plan_at(601)


def owed(cluster: Letters, name: str):
    return next(b.order for b in cluster.courier.boxes if b.environment == name)


def test_an_order_that_was_not_taken_in_time_is_taken_back() -> None:
    cluster = away()
    assert (cluster.member("clinic").state, owed(cluster, "clinic").why) == ("Away", "missed")
    assert cluster.condition("Progressing").reason == "RoundOpen", "nothing is being closed"
    cluster.deliver()
    assert owed(cluster, "clinic") is None, "once"
    cluster.answer("maze")
    cluster.answered("bank")
    cluster.aggregate()
    cluster.deliver()
    cluster.hear("clinic", "hello")
    cluster.hear("bank", "taken")
    cluster.answer("maze")
    cluster.answered("bank")
    cluster.aggregate()
    assert owed(cluster, "clinic").round == 3


def test_whoever_comes_back_before_it_was_taken_back_keeps_it() -> None:
    """It may work for a closed round, but only until its next order, which comes with the next."""
    cluster = away()
    cluster.report(
        CourierReport(
            read=[LogAdvance(box=1, serial=2, digest=digest(2))],
            news=[{"box": 1, "kind": "taken", "order": 1}],
        )
    )
    assert cluster.member("clinic").state == "Present"
    assert owed(cluster, "clinic") is None


def test_in_a_failed_round_nothing_is_taken_back_before_somebody_asks() -> None:
    cluster = opened("clinic").deliver()
    cluster.plan_at(601)
    assert cluster.member("clinic").state == "Away" and cluster.status.failed
    assert cluster.courier is None


def test_an_answer_that_comes_after_the_freeze_moves_the_cursor_and_nothing_else() -> None:
    cluster = opened("clinic", "bank", rounds=2, participation={"minimumUpdates": 2}).deliver()
    cluster.hear("bank", "taken")
    cluster.hear("clinic", "taken")
    cluster.answer("maze")
    cluster.answered("bank")
    late = cluster.status.current
    cluster.plan_at(3601)
    frozen = cluster.status.current.members
    assert [m.environment for m in frozen] == ["bank", "maze"]
    cluster.aggregate()
    assert cluster.status.current.round == late.round + 1
    before = cluster.status
    cluster.hear("clinic", "answer", order=1, report=None)
    assert cluster.member("clinic").received.serial > 0
    assert cluster.state("clinic") in ("Queued", "Starting")
    assert cluster.status.history == before.history


def down(cluster: Letters, seconds: range) -> None:
    """Every courier ends with 44 meanwhile."""
    for moment in seconds:
        cluster.plan_at(moment)
        for name in [n for n in cluster.active() if "-mail-" in n]:
            cluster.set(name, "failed", exit_code=44)
        cluster.turn()


@pytest.mark.parametrize("minimum, outcome", [(1, "aggregated"), (None, "failed")])
def test_a_bucket_that_is_down_for_longer_than_the_round_costs_the_silo_its_part(
    minimum: int | None, outcome: str
) -> None:
    rules = {"participation": {"minimumUpdates": minimum}} if minimum else {}
    cluster = opened("clinic", **rules).deliver()
    cluster.hear("clinic", "taken")
    cluster.answer("maze")
    down(cluster, range(100, 3700, 100))
    if minimum:
        cluster.aggregate()
    assert cluster.status.history[-1].outcome == outcome
    if not minimum:
        assert cluster.status.failed.reason == "TooFewUpdates"


def test_a_bucket_that_is_down_for_longer_than_an_order_may_wait_costs_nothing() -> None:
    """The wait for it to be taken begins once it is posted."""
    cluster = opened("clinic")
    cluster.answer("maze")
    down(cluster, range(100, 3000, 100))
    cluster.plan_at(3100).deliver()
    cluster.hear("clinic", "taken")
    cluster.answered("clinic")
    cluster.aggregate()
    assert cluster.status.history[-1].updates == "2/2"


def test_orders_that_the_status_does_not_know_are_told_and_gone_behind() -> None:
    """It was restored from a backup, or somebody else coordinates with the same key."""
    cluster = opened("clinic")
    order = cluster.courier.boxes[0].order
    moved = LogAdvance(box=0, serial=7, digest=digest(7), order=order, ahead=True)
    cluster.report(CourierReport(posted=[moved]))
    assert cluster.reasons().count("Twin") == 1
    assert cluster.member("clinic").sent.serial == 7
    cluster.hear("clinic", "taken", order=3)
    assert cluster.state("clinic") == "Starting", "what was said to an older order is nothing new"
    cluster.hear("clinic", "taken", order=7)
    assert cluster.state("clinic") == "Running"


def without(cluster: Letters, name: str) -> Letters:
    kept = [e for e in cluster.federation.spec.environments if e.name != name]
    return cluster.change(environments=kept)


def test_whoever_leaves_the_spec_while_its_order_is_on_its_way_is_told() -> None:
    """The courier may have posted it already; nobody waits for that one's report."""
    cluster = opened("clinic", "bank", participation={"minimumUpdates": 1})
    before = cluster.federation
    assert cluster.member("clinic").order is None and owed(cluster, "clinic").kind == "work"
    without(cluster, "clinic")
    assert owed(cluster, "clinic").why == "removed"
    cluster.deliver()
    assert [m.name for m in cluster.status.members] == ["bank"]
    cluster.change(environments=before.spec.environments)
    assert cluster.member("clinic").state == "Invited"


def test_whoever_is_back_in_the_spec_before_it_was_forgotten_is_told_anew_when_it_leaves() -> None:
    cluster = opened("clinic", "bank", participation={"minimumUpdates": 1})
    before = cluster.federation.spec.environments
    without(cluster, "clinic")
    index = [b.environment for b in cluster.courier.boxes].index("clinic")
    order = cluster.courier.boxes[index].order
    cluster.federation = with_spec(cluster.federation, environments=before)
    moved = LogAdvance(box=index, serial=9, digest=digest(9), order=order)
    cluster.report(CourierReport(posted=[moved]))
    assert cluster.member("clinic").state == "Present" and cluster.member("clinic").order is None
    assert owed(without(cluster, "clinic"), "clinic").why == "removed"


def test_a_store_that_refuses_does_not_keep_one_that_left_the_spec_from_being_forgotten() -> None:
    cluster = opened("clinic", "bank", participation={"minimumUpdates": 1})
    cluster.federation = with_spec(cluster.federation, suspend=True)
    without(cluster, "clinic")
    assert cluster.condition("Progressing").reason == "Closing"
    cluster.set(cluster.running("mail"), "failed", exit_code=42).turn()
    assert cluster.status.phase == "Suspended"
    assert [m.name for m in cluster.status.members] == ["bank"]
