"""An adapter that nobody can evaluate: the guard takes it for a fall, and no retry starts there."""

from datetime import timedelta
from typing import Any

import pytest

from hansa.api.assignment import ClientReport
from hansa.api.constants import ANNOTATION_RETRY
from tests.support.builders import make_report
from tests.support.guard_plans import guarded, outcomes, play, start
from tests.support.simulated_cluster import Cluster
from tests.support.unevaluated_plans import DIVERGED, FEW, fail

NAMES = ("babyai", "maze", "wordle")


def retry(cluster: Cluster, value: str) -> Cluster:
    return cluster.annotate(ANNOTATION_RETRY, value)


@pytest.mark.attack(
    by="a silo",
    does="ruins the adapter so that nobody can evaluate it",
    result="the guard goes back",
)
def test_where_all_clients_break_at_a_new_adapter_the_next_start_is_the_best_before_it() -> None:
    cluster = fail(play(guarded(**FEW), 3), "babyai", "maze")
    assert outcomes(cluster) == ["base", "rejected", "rolled-back"]
    assert start(cluster, "fed-r3-maze-a1") == 0
    assert cluster.status.completed == 2
    assert cluster.status.guard.step_factor == 0.5
    event_ = next(event for event in cluster.events if event.reason == "RolledBack")
    assert event_.message.startswith(
        "round 2: nobody could evaluate the adapter of round 1, while that of round 0 had "
        "30.0% validation success; continues from round 0"
    )
    assert cluster.condition("Degraded").status == "True"


def test_the_best_of_all_that_were_evaluated_is_gone_back_to() -> None:
    cluster = fail(play(guarded(6, **FEW), 3, 6, 5), "babyai", "maze")
    assert start(cluster, "fed-r5-maze-a1") == 1


def test_one_client_that_breaks_does_not_keep_the_others_from_evaluating() -> None:
    """With a minimum of all, the first that breaks would end the round, and nobody would know."""
    cluster = fail(play(guarded(**FEW), 3), "maze")
    assert cluster.active() == ["fed-r2-babyai-a1"]
    assert cluster.status.phase == "Running"
    fail(cluster, "babyai")
    assert outcomes(cluster) == ["base", "rejected", "rolled-back"]


def test_the_first_that_has_evaluated_it_ends_the_wait() -> None:
    cluster = Cluster(*NAMES, rounds=4, guard={"maxDrop": 0.1}, **FEW).turn()
    fail(play(cluster, 3), "maze")
    assert len(cluster.active()) == 2
    cluster.answer("fed-r2-babyai-a1", successes=6).turn()
    assert outcomes(cluster) == ["base", "aggregated", "failed"]
    assert cluster.active() == []


def test_where_the_others_never_answer_a_second_such_round_is_a_verdict() -> None:
    cluster = play(guarded(participation={"retries": 0, "roundTimeoutSeconds": 100}), 3)
    for value in ("once", "twice"):
        fail(cluster, "maze")
        (late,) = cluster.active()
        cluster.set(late, "running", started_at=cluster.now).turn()
        assert cluster.active() == [late]
        cluster.now += timedelta(seconds=100)
        cluster.turn()
        if value == "once":
            assert cluster.status.phase == "Failed"
            assert (
                "Nobody has evaluated the adapter of round 1 yet" in cluster.status.failed.message
            )
            assert "hansa rollback" in cluster.status.failed.message
            retry(cluster, value)
    assert outcomes(cluster) == ["base", "rejected", "failed", "rolled-back"]
    assert start(cluster, "fed-r4-maze-a1") == 0


def test_what_is_not_the_adapters_fault_ends_the_round_at_once() -> None:
    cluster = fail(play(guarded(**FEW), 3), "maze", exit_code=42, message="no such model")
    assert cluster.status.phase == "Failed"
    assert cluster.active() == []


@pytest.mark.parametrize(
    "how",
    [
        pytest.param({"exit_code": 42, "message": "no such model"}, id="a setting that is wrong"),
        pytest.param({"reason": "CannotStart", "message": "no image"}, id="no image"),
        pytest.param({"reason": "DeadlineExceeded", "exit_code": 137}, id="no time"),
    ],
)
def test_what_is_not_the_adapters_fault_rolls_nothing_back(how: dict[str, Any]) -> None:
    cluster = fail(play(guarded(**FEW), 3), "babyai", "maze", **how)
    for value in ("once", "twice"):
        assert outcomes(cluster)[-1] == "failed"
        assert cluster.status.phase == "Failed"
        fail(retry(cluster, value), "babyai", "maze", **how)
    assert cluster.status.adapter.round == 1


def test_an_adapter_that_was_evaluated_once_is_judged_by_that() -> None:
    cluster = play(guarded(**FEW), 3)
    cluster.answer("fed-r2-babyai-a1", successes=6).turn()
    fail(cluster, "maze")
    fail(retry(cluster, "once"), "babyai", "maze")
    assert cluster.status.phase == "Failed"
    assert "Nobody has evaluated" not in cluster.status.failed.message
    assert cluster.status.adapter.round == 1


def test_without_a_guard_a_person_decides() -> None:
    cluster = fail(play(guarded(guard=None, **FEW), 3), "babyai", "maze")
    assert outcomes(cluster) == ["base", "aggregated", "failed"]
    assert "`hansa rollback` goes back behind it" in cluster.status.failed.message


def test_the_base_is_not_gone_back_from() -> None:
    cluster = fail(guarded(**FEW), "babyai", "maze")
    assert outcomes(cluster) == ["base", "failed"]
    assert "rollback" not in cluster.status.failed.message


@pytest.mark.parametrize(("every", "rolls_back"), [(1, True), (2, False)])
def test_who_answers_and_evaluates_nothing_is_believed_only_if_nobody_asked(
    every: int, rolls_back: bool
) -> None:
    cluster = play(guarded(evaluation={"everyRounds": every}), 3)
    for job in cluster.active():
        report: ClientReport = make_report(cluster.requests[job])
        silent = report.model_copy(update={"evaluation": None})
        cluster.set(job, "succeeded", report=silent)
    cluster.turn()
    assert (outcomes(cluster)[-1] == "rolled-back") is rolls_back


@pytest.mark.parametrize(
    ("how", "kept"), [(DIVERGED, 0), ({"reason": "CannotStart"}, 1)], ids=["broke", "no image"]
)
def test_the_last_adapter_is_not_kept_where_all_broke_over_it(
    how: dict[str, Any], kept: int
) -> None:
    cluster = fail(play(guarded(1, **FEW), 3), "babyai", "maze", **how)
    assert cluster.status.phase == "Succeeded"
    assert (cluster.status.adapter.round if cluster.status.adapter else 0) == kept
