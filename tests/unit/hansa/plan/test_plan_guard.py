"""The guard in the plan: a worse adapter is not gone on from, and the best is what stays."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from hansa.api.constants import ANNOTATION_RETRY
from hansa.plan.federation import plan
from tests.support.builders import make_federation, make_report, make_spec, with_spec
from tests.support.guard_plans import NAMES, guarded, outcomes, play, start
from tests.support.simulated_cluster import Cluster


def step(cluster: Cluster, job: str) -> float:
    return cluster.requests[job].assignment.settings.aggregation.server_step


def test_a_worse_adapter_is_gone_back_from_and_the_step_is_halved():
    cluster = play(guarded(), 3, 6, 2)  # base, round 1, round 2: round 3 finds the fall
    assert outcomes(cluster) == ["base", "aggregated", "rejected", "rolled-back"]
    assert "fed-r3-aggregator-a1" not in cluster.requests
    assert start(cluster, "fed-r4-maze-a1") == 1
    assert step(cluster, "fed-r3-maze-a1") == 3.0
    assert step(cluster, "fed-r4-maze-a1") == 1.5
    assert cluster.status.adapter.round == 1
    assert cluster.status.completed == 3
    degraded = next(c for c in cluster.status.conditions if c.type == "Degraded")
    assert (degraded.status, degraded.reason) == ("True", "RolledBack")
    assert "fell from 60.0% (round 1) to 20.0% (round 2)" in degraded.message
    lines = [event for event in cluster.events if event.reason == "RolledBack"]
    assert [event.warning for event in lines] == [True]
    assert "continues from round 1 with server step 1.5" in lines[0].message


def test_a_step_that_fits_itself_is_halved_by_a_factor():
    cluster = play(guarded(aggregation={"serverStep": "auto"}), 3, 6, 2)
    before, after = (cluster.requests[f"fed-r{number}-maze-a1"] for number in (3, 4))
    assert [each.assignment.settings.step_factor for each in (before, after)] == [1.0, 0.5]
    assert step(cluster, "fed-r4-maze-a1") == "auto"
    event_ = next(event for event in cluster.events if event.reason == "RolledBack")
    assert "continues from round 1 with server step auto x 0.5" in event_.message
    play(cluster, 6)
    inputs = cluster.requests["fed-r4-aggregator-a1"].assignment.inputs()
    assert inputs["stepFactor"] == 0.5
    assert "stepFactor" not in after.assignment.inputs()  # a client's work does not follow it


@pytest.mark.parametrize(
    ("given", "said"),
    [(3.0, "round 1 aggregated 2 updates"), ("auto", "2 updates with server step 2.5")],
)
def test_a_round_tells_the_step_it_took(given, said):
    cluster = play(guarded(aggregation={"serverStep": given}), 3)
    assert cluster.status.history[-1].server_step == 2.5
    lines = [event.message for event in cluster.events if event.reason == "RoundAggregated"]
    assert lines[0].endswith(said)


def test_a_round_that_goes_well_again_ends_the_trouble():
    cluster = play(guarded(5), 3, 6, 2, 6)
    degraded = next(c for c in cluster.status.conditions if c.type == "Degraded")
    assert degraded.status == "False"
    assert cluster.status.guard.rollbacks == 1
    assert start(cluster, "fed-r5-maze-a1") == 4


def test_back_to_the_base_starts_without_an_adapter():
    cluster = play(guarded(), 6, 2)
    assert start(cluster, "fed-r3-maze-a1") == 0
    assert cluster.status.adapter is None
    assert cluster.status.best.round == 0


def test_a_fall_in_the_last_round_ends_with_the_best_adapter():
    cluster = play(guarded(3), 3, 6, 2)
    assert start(cluster, "fed-e1-maze-a1") == 1
    play(cluster, 6)
    assert cluster.status.phase == "Succeeded"
    assert cluster.status.adapter.round == 1


def test_the_last_adapter_is_judged_too():
    cluster = play(guarded(2), 3, 6, 2)  # the last figure is of the evaluation after round 2
    assert cluster.status.phase == "Succeeded"
    assert outcomes(cluster) == ["base", "aggregated", "rejected"]
    assert cluster.status.adapter.round == 1
    assert cluster.status.adapter.sha256 == f"{1:064x}"
    assert cluster.status.success == "0.600"  # of the adapter that is kept


def test_the_best_is_kept_even_if_the_last_is_not_bad_enough_to_reject():
    cluster = play(guarded(2), 3, 6, 5)
    assert outcomes(cluster) == ["base", "aggregated", "aggregated"]
    assert cluster.status.adapter.round == 1
    assert [e.reason for e in cluster.events].count("BestKept") == 1


def test_without_a_guard_the_last_adapter_stays_whatever_it_does():
    cluster = play(guarded(2, guard=None), 6, 6, 1)
    assert outcomes(cluster) == ["base", "aggregated", "aggregated"]
    assert cluster.status.adapter.round == 2


def test_a_pause_waits_for_a_person_and_goes_on_from_the_best():
    cluster = play(guarded(guard={"action": "pause"}), 3, 6, 2)
    assert cluster.status.phase == "Failed"
    progressing = next(c for c in cluster.status.conditions if c.type == "Progressing")
    assert progressing.reason == "GuardTripped"
    assert "hansa retry" in progressing.message
    cluster.annotate(ANNOTATION_RETRY, "now")
    assert start(cluster, "fed-r4-maze-a1") == 1


def test_a_guard_that_is_switched_on_later_judges_from_then_on():
    cluster = play(guarded(5, guard=None), 9, 9)
    cluster.federation = with_spec(cluster.federation, guard={"maxDrop": 0.1})
    play(cluster, 1, 9)  # round 3 was opened without it; adapter 2 has no validation figure
    assert "rejected" not in outcomes(cluster)
    play(cluster, 1)
    assert outcomes(cluster)[-2:] == ["rejected", "rolled-back"]


def test_own_updates_are_shown_beside_the_global_adapter():
    cluster = guarded(2, guard=None, evaluation={"ownUpdate": True})
    play(cluster, 4, 6)
    line = cluster.status.environments[1]
    assert (line.success, line.own, line.gain) == ("0.600", "0.600", "+0.200")
    assert cluster.status.history[1].own == {"babyai": 0.4, "maze": 0.4}


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"aggregation": {"strategy": "none"}, "guard": {}}, "no global adapter to guard"),
        ({"evaluation": {"validationTasks": 0}, "guard": {}}, "evaluation.validationTasks: got 0"),
    ],
)
def test_a_guard_that_could_judge_nothing_is_refused(fields, sentence):
    with pytest.raises(ValidationError, match=sentence):
        make_spec(*NAMES, **fields)


def test_validation_tasks_are_played_only_where_something_is_chosen_by_them():
    def chosen_by(**fields):
        federation = make_federation(*NAMES, **fields)
        current = plan(federation, [], Cluster().now).status.current
        return current.settings.evaluation.validation_tasks

    assert chosen_by() == 0
    assert chosen_by(guard={}, evaluation={"tasks": 30}) == 30
    assert chosen_by(guard={"action": "none"}) == 0
    assert chosen_by(evaluation={"validationTasks": 12}) == 12


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    truth=st.lists(st.integers(0, 10), min_size=7, max_size=7),
    orders=st.lists(st.permutations(NAMES), min_size=7, max_size=7),
    forgets=st.lists(st.booleans(), min_size=30, max_size=30),
)
def test_whatever_comes_in_whatever_order_the_end_is_within_the_drop_of_the_best(
    truth, orders, forgets
):
    """Jobs answer in any order, and the executor dies between a plan and its status write."""
    cluster = guarded(6)
    lost = iter(forgets)
    for order in orders:
        for name in order:
            for job in [job for job in cluster.active() if f"-{name}-" in job]:
                request = cluster.requests[job]
                success = truth[request.assignment.start.round]
                cluster.set(job, "succeeded", report=make_report(request, successes=success))
                if next(lost, False):  # planned, and killed before anything was written
                    plan(cluster.federation, list(cluster.jobs.values()), cluster.now)
                cluster.turn()
        cluster.answer(*[job for job in cluster.active() if "aggregator" in job]).turn()
    status = cluster.status
    assert status.phase == "Succeeded"
    seen = {entry.round: truth[entry.round] for entry in status.history if entry.validation}
    kept = status.adapter.round if status.adapter else 0
    assert seen[kept] >= max(seen.values()) - 1
    accepted = [r for r, e in enumerate(outcomes(cluster)) if e == "aggregated" and r in seen]
    assert kept == 0 or seen[kept] == max(seen[round_] for round_ in accepted)
