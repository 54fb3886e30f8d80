"""Rounds whose updates are masked: who masks against whom, and what happens when one drops out."""

import pytest

from hansa.api.secure_aggregation import EPOCHS
from hansa.core.exits import Exit
from tests.support.builders import make_report, with_spec
from tests.support.masked_updates import FIVE, dropped_out, key, masked
from tests.support.simulated_cluster import Cluster

FIRST = [f"fed-r1-{name}-a1" for name in FIVE]
AGGREGATOR = "fed-r1-aggregator-a1"


def opened(**fields):
    return Cluster(**{**masked(), "participation": {"minimumUpdates": 3}, **fields}).turn()


def frozen(*answers, **fields):
    """A round that is aggregated since its time was over, with who had answered by then."""
    cluster = opened(**fields)
    for name in FIRST:
        cluster.set(name, "running")
    cluster.turn()
    cluster.answer(*(FIRST[i] for i in answers)).turn()
    return cluster.plan_at(4000)


def drop(cluster, *remaining):
    name = next(name for name in cluster.active() if "aggregator" in name)
    report = dropped_out(1, *remaining)
    cluster.set(name, "failed", exit_code=Exit.MASK_AGAIN, report=report)
    return cluster.turn()


def states(cluster):
    return [e.state for e in cluster.status.current.environments]


def test_all_mask_against_all_by_the_keys_of_the_spec():
    cluster = opened()
    for name in FIRST:
        masking = cluster.requests[name].assignment.masking
        assert masking.epoch == 0
        assert masking.peers == {name: key(name) for name in FIVE}


def test_a_spec_without_masks_opens_rounds_without():
    cluster = Cluster().turn()
    assert cluster.status.current.masking is None
    assert all(r.assignment.masking is None for r in cluster.requests.values())


def test_where_all_answer_the_round_is_one_epoch_and_no_further_job():
    cluster = opened()
    cluster.answer(*FIRST).turn()
    assert cluster.requests[AGGREGATOR].assignment.masking.peers.keys() == set(FIVE)
    cluster.answer(AGGREGATOR).turn()
    assert cluster.status.history[1].outcome == "aggregated"
    assert len(cluster.requests) == 11, "five clients and an aggregator, five of the next round"


def test_who_remains_masks_again_without_who_dropped_out_and_evaluates_nothing():
    cluster = drop(frozen(0, 1, 2, 3), 0, 1, 2, 3)
    assert states(cluster) == ["Starting"] * 4 + ["Failed"]
    assert [e.failures for e in cluster.status.current.environments] == [0] * 5, "of no retry"
    again = [f"fed-r1-{name}-a2" for name in "abcd"]
    assert cluster.active() == again
    for name in again:
        assignment = cluster.requests[name].assignment
        assert assignment.masking.epoch == 1
        assert list(assignment.masking.peers) == list("abcd")
        assert assignment.role == "client"
        assert not assignment.evaluate
    waits = cluster.condition("Progressing").message
    assert waits.startswith("round 1 masks its updates again (1 of 2) and waits for a Starting, b")
    lines = [e.message for e in cluster.events if e.reason == "MaskAgain"]
    assert lines == ["round 1: e dropped out; the other 4 silos mask their updates again"]


def test_the_next_aggregator_merges_what_was_masked_again():
    cluster = drop(frozen(0, 1, 2, 3), 0, 1, 2, 3)
    cluster.answer(*cluster.active()).turn()
    name = "fed-r1-aggregator-a2"
    assert cluster.active() == [name]
    assert [m.environment for m in cluster.requests[name].assignment.members] == list("abcd")
    cluster.answer(name).turn()
    entry = cluster.status.history[1]
    assert (entry.outcome, entry.updates) == ("aggregated", "4/5")


def test_an_answer_of_the_epoch_before_is_as_good_as_lost():
    cluster = drop(frozen(0, 1, 2, 3), 0, 1, 2, 3)
    stale = make_report(cluster.requests[FIRST[0]])
    stale = stale.model_copy(update={"evaluation": None})
    cluster.set("fed-r1-a-a2", "succeeded", report=stale, started_at=cluster.now).turn()
    assert cluster.status.current.environments[0].message == "report lost"
    assert cluster.status.current.environments[0].attempt == 3


def test_masking_again_has_a_clock_of_its_own():
    cluster = drop(frozen(0, 1, 2, 3), 0, 1, 2, 3)
    assert cluster.status.current.started_at is None
    assert states(cluster.plan_at(4500)) == ["Starting"] * 4 + ["Failed"]


def test_one_whose_update_was_sent_while_the_round_was_decided_masks_again_too():
    cluster = drop(frozen(0, 1, 2), 0, 1, 2, 3)
    assert states(cluster) == ["Starting"] * 4 + ["Failed"]


def test_a_silo_with_nothing_to_learn_is_left_out_of_the_sum_and_has_answered():
    cluster = opened()
    cluster.answer(*FIRST[:4]).answer(FIRST[4], trained=False).turn()
    assignment = cluster.requests[AGGREGATOR].assignment
    assert [m.environment for m in assignment.members] == list("abcd")
    assert list(assignment.masking.peers) == list(FIVE), "the aggregator has to see who is missing"
    assert states(drop(cluster, 0, 1, 2, 3)) == ["Starting"] * 4 + ["Empty"]


def test_fewer_than_three_updates_are_never_summed_and_the_round_counts():
    cluster = opened()
    cluster.answer(*FIRST[:2]).answer(*FIRST[2:], trained=False).turn()
    assert AGGREGATOR not in cluster.requests
    assert cluster.status.history[1].outcome == "empty"
    lines = [e.message for e in cluster.events if e.reason == "RoundEmpty"]
    assert lines == ["round 1: 2 had something to learn from, and a masked sum needs 3"]


def test_a_round_of_which_fewer_than_three_are_left_fails():
    cluster = frozen(0, 1)
    assert cluster.status.failed.reason == "TooFewUpdates"
    assert "participation.minimumUpdates needs 3" in cluster.status.failed.message


def test_the_aggregator_needs_three_updates_however_many_had_nothing_to_learn():
    cluster = opened()
    cluster.answer(*FIRST[:3]).answer(*FIRST[3:], trained=False).turn()
    assert cluster.requests[AGGREGATOR].assignment.minimum == 3


def test_after_the_last_epoch_the_round_fails_and_says_who_dropped_out():
    names = tuple("abcdef")
    cluster = Cluster(**masked(*names), participation={"minimumUpdates": 3}).turn()
    cluster.answer(*cluster.active()).turn()
    for epoch in range(1, EPOCHS):
        drop(cluster, *range(6 - epoch))
        cluster.answer(*cluster.active()).turn()
        assert cluster.status.current.masking.epoch == epoch
    drop(cluster, *range(3))
    assert cluster.status.failed.reason == "AggregationFailed"
    assert cluster.status.failed.message == (
        "aggregator: d dropped out, after others had 2 times. Round 1 failed"
    )


@pytest.mark.parametrize(
    "remaining",
    [(), (0, 1), (0, 0, 1), (0, 1, 2, 3, 4), (0, 1, 7)],
    ids=["nobody", "too few", "one twice", "all", "a stranger"],
)
def test_a_report_that_no_aggregator_makes_is_lost_and_it_runs_again(remaining):
    cluster = drop(frozen(0, 1, 2, 3), *remaining)
    assert cluster.status.current.masking.epoch == 0
    assert cluster.status.current.aggregator.attempt == 2
    assert cluster.status.current.aggregator.failures == 0


def test_who_dropped_out_before_does_not_come_back_by_a_report():
    cluster = drop(frozen(0, 1, 2, 3), 0, 1, 2, 3)
    cluster.answer(*cluster.active()).turn()
    drop(cluster, 0, 1, 2, 4)
    assert cluster.status.current.masking.epoch == 1
    assert cluster.status.current.aggregator.attempt == 3


def test_a_lost_report_is_fetched_by_running_the_aggregator_again():
    cluster = frozen(0, 1, 2, 3)
    cluster.set(AGGREGATOR, "failed", exit_code=Exit.MASK_AGAIN).turn()
    assert cluster.status.current.aggregator.attempt == 2


def test_without_masks_nobody_masks_again():
    cluster = Cluster().turn()
    cluster.answer(*cluster.active()).turn()
    drop(cluster, 0, 1)
    assert cluster.status.current.masking is None
    assert cluster.status.current.aggregator.attempt == 2


def test_one_that_left_the_spec_stays_a_peer_since_the_others_masked_against_it():
    cluster = opened()
    kept = [e.to_json() for e in cluster.federation.spec.environments[:4]]
    cluster.federation = with_spec(cluster.federation, environments=kept)
    cluster.answer(*FIRST[:4]).turn()
    assignment = cluster.requests[AGGREGATOR].assignment
    assert assignment.environments == list("abcd")
    assert list(assignment.masking.peers) == list(FIVE)
    assert states(drop(cluster, 0, 1, 2, 3)) == ["Starting"] * 4


def test_an_update_that_an_epoch_leaves_out_has_failed():
    cluster = drop(frozen(0, 1, 2, 3), 0, 1, 2)
    assert states(cluster) == ["Starting"] * 3 + ["Failed"] * 2
    assert "sent no masked update" in cluster.status.current.environments[3].message


def test_how_its_own_update_did_is_not_forgotten_when_it_is_masked_again():
    cluster = frozen(0, 1, 2, 3, evaluation={"ownUpdate": True})
    drop(cluster, 0, 1, 2, 3)
    for name in cluster.active():
        request = cluster.requests[name]
        report = make_report(request).model_copy(update={"own": None})
        cluster.set(name, "succeeded", report=report)
    cluster.turn()
    assert [e.own for e in cluster.status.current.environments] == [0.5] * 4 + [None]


def test_a_key_may_come_and_never_change_or_go():
    cluster = Cluster().turn()
    named = [
        {**e.to_json(), "maskingKey": key(e.name)} for e in cluster.federation.spec.environments
    ]
    cluster.change(environments=named)
    assert cluster.condition("Accepted").status == "True"
    other = [{**named[0], "maskingKey": key("other")}, *named[1:]]
    cluster.change(environments=other)
    assert cluster.condition("Accepted").reason == "ImmutableFieldChanged"
    assert "babyai.maskingKey" in cluster.condition("Accepted").message
