"""Going back to an earlier adapter because a person asked for it: `hansa rollback`, in the plan."""

import pytest

from hansa.api.constants import ANNOTATION_ROLLBACK
from hansa.api.status import FederationStatus, HistoryEntry
from hansa.plan.policy import rollback
from tests.support.builders import make_federation, with_spec
from tests.support.guard_plans import guarded, outcomes, play, start
from tests.support.simulated_cluster import Cluster
from tests.support.unevaluated_plans import FEW, fail


def ask(cluster: Cluster, value: str) -> Cluster:
    """The federation after somebody has set the annotation."""
    return cluster.annotate(ANNOTATION_ROLLBACK, value)


def plain(rounds: int = 4) -> Cluster:
    return guarded(rounds, guard=None)


def test_the_rounds_behind_it_are_played_again_from_that_adapter() -> None:
    cluster = play(plain(), 3, 6, 1)  # adapters 1 to 3 are there, and round 4 is open
    ask(cluster, rollback.format_request(1, "now"))
    assert outcomes(cluster) == ["base", "aggregated", "undone", "undone", "undone"]
    assert cluster.status.completed == 1
    assert cluster.active() == ["fed-r5-babyai-a1", "fed-r5-maze-a1"]  # those of round 4 are gone
    assert start(cluster, "fed-r5-maze-a1") == 1
    assert cluster.status.history[2].message == "a person went back to round 1"
    lines = [event.message for event in cluster.events if event.reason == "RolledBack"]
    assert lines == ["continues from the adapter of round 1, as asked"]
    play(cluster, 6, 7, 8, 9)
    assert cluster.status.phase == "Succeeded"
    assert (cluster.status.completed, cluster.status.adapter.round) == (4, 7)


def test_a_request_is_carried_out_once() -> None:
    cluster = play(ask(play(plain(), 3, 6), "0@now"), 3, 6)
    assert cluster.turn().status.adapter.round == 5
    ask(cluster, "0@later")
    assert cluster.status.adapter is None
    assert start(cluster, "fed-r7-maze-a1") == 0


def test_what_was_undone_is_no_longer_the_best_nor_the_newest_success() -> None:
    cluster = ask(play(plain(), 3, 9, 2), "0@now")
    assert cluster.status.best.round == 0
    assert cluster.status.success == "0.300"


def test_a_finished_federation_opens_again() -> None:
    cluster = play(plain(2), 3, 6, 1)
    assert cluster.status.phase == "Succeeded"
    ask(cluster, "1@now")
    assert cluster.status.phase == "Running"
    assert start(cluster, "fed-r3-maze-a1") == 1
    play(cluster, 6, 8)
    assert cluster.status.phase == "Succeeded"
    assert cluster.status.adapter.round == 3


def test_an_evaluation_under_way_is_given_up() -> None:
    cluster = ask(play(plain(2), 3, 6), "1@now")
    assert outcomes(cluster) == ["base", "aggregated", "undone"]
    assert cluster.active() == ["fed-r3-babyai-a1", "fed-r3-maze-a1"]


def test_a_failed_federation_goes_on_from_there() -> None:
    cluster = fail(play(guarded(guard=None, **FEW), 3), "babyai", "maze")
    assert cluster.status.phase == "Failed"
    ask(cluster, "0@now")
    assert outcomes(cluster) == ["base", "undone", "failed"]
    assert start(cluster, "fed-r3-maze-a1") == 0
    assert cluster.status.completed == 0


def test_back_to_where_it_starts_anyway_the_open_round_goes_on() -> None:
    cluster = play(plain(), 3)
    before = cluster.active()
    ask(cluster, "1@now")
    assert cluster.active() == before == ["fed-r2-babyai-a1", "fed-r2-maze-a1"]
    assert outcomes(cluster) == ["base", "aggregated"]


def test_back_to_where_a_failed_round_started_is_a_retry() -> None:
    cluster = fail(play(guarded(guard=None, **FEW), 3), "babyai", "maze")
    ask(cluster, "1@now")
    assert start(cluster, "fed-r3-maze-a1") == 1
    assert outcomes(cluster) == ["base", "aggregated", "failed"]


@pytest.mark.parametrize("value", ["7@now", "2@now", "-1", "best", "1e30@now", "9" * 5000])
def test_a_round_without_an_adapter_that_counts_is_refused_once_and_nothing_changes(
    value: str,
) -> None:
    cluster = play(plain(6), 3, 6, 1)
    ask(cluster, "1@first")  # round 2 is undone, and no way back leads forward
    events = len(cluster.events)
    before = cluster.active()
    ask(cluster, value).turn()
    assert cluster.active() == before
    (events_since,) = cluster.events[events:]
    assert (events_since.reason, events_since.warning) == ("RollbackRefused", True)
    assert events_since.message.startswith("hansa.dev/rollback: got '")
    assert events_since.message.endswith(
        "expected a round whose adapter counts (0, 1; 0 is the base)"
    )


def test_before_the_first_round_there_is_nothing_to_go_back_to() -> None:
    assert rollback.explain_refusal([], "1").endswith("(none yet; 0 is the base)")


def test_a_suspended_federation_goes_back_and_stays_suspended() -> None:
    cluster = play(plain(), 3, 6)
    cluster.federation = with_spec(cluster.federation, suspend=True)
    ask(cluster.turn(), "1@now")
    assert cluster.status.phase == "Suspended"
    assert cluster.active() == []
    cluster.federation = with_spec(cluster.federation, suspend=False)
    assert start(cluster.turn(), "fed-r4-maze-a1") == 1


def test_environments_forget_adapters_of_their_own_that_are_newer() -> None:
    cluster = Cluster("babyai", "maze", rounds=3, aggregation={"strategy": "none"}).turn()
    cluster.answer(*cluster.active()).turn()
    assert cluster.requests["fed-r2-maze-a1"].assignment.own_start
    ask(cluster, "0@now")
    assert start(cluster, "fed-r3-maze-a1") == 0
    assert not cluster.requests["fed-r3-maze-a1"].assignment.own_start


def test_rounds_that_the_history_has_forgotten_count_as_played() -> None:
    entries = [HistoryEntry(round=r, outcome="aggregated") for r in (7, 8)]
    base = HistoryEntry(round=0, outcome="base")
    status = FederationStatus(round=8, completed=8, history=[base, *entries])
    assert rollback.undo(status, base).completed == 0
    assert rollback.undo(status, entries[0]).completed == 7


def test_an_annotation_from_before_the_first_round_is_refused_and_the_run_begins() -> None:
    cluster = Cluster("maze")
    cluster.federation = make_federation("maze")
    assert ask(cluster, "3").active() == ["fed-r1-maze-a1"]
