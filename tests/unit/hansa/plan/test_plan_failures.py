"""The state machine where Jobs fail, hang, vanish or answer nonsense."""

import pytest

from hansa.api.constants import ANNOTATION_RETRY
from tests.support.builders import NOW, later, make_report
from tests.support.simulated_cluster import Cluster


def test_a_crash_is_retried_after_a_pause():
    cluster = Cluster("maze").turn().set("fed-r1-maze-a1", "failed", exit_code=1).turn()
    assert cluster.active() == []
    assert cluster.status.environments[0].state == "Retrying"
    assert cluster.wake_at == later(1)
    cluster.plan_at(1)
    assert cluster.active() == ["fed-r1-maze-a2"]


def fail_for_good(cluster, environment):
    attempt = 1
    while cluster.status.current and any(
        e.name == environment and e.state != "Failed" for e in cluster.status.current.environments
    ):
        cluster.set(f"fed-r{cluster.status.round}-{environment}-a{attempt}", "failed", exit_code=1)
        cluster.turn()
        cluster.plan_at((cluster.now - NOW).total_seconds() + 60)
        attempt += 1
    return attempt - 1


def test_an_environment_that_fails_for_good_is_left_out_and_back_in_the_next_round():
    cluster = Cluster("maze", "wordle", participation={"minimumUpdates": 1}).turn()
    cluster.set("fed-r1-maze-a1", "running")
    assert fail_for_good(cluster, "wordle") == 3
    assert cluster.condition("Degraded").status == "False"  # the round is not decided yet
    cluster.answer("fed-r1-maze-a1").turn()
    cluster.answer("fed-r1-aggregator-a1").turn()
    assert cluster.status.history[-1].updates == "1/2"
    assert cluster.condition("Degraded").reason == "EnvironmentFailed"
    assert "wordle" in cluster.condition("Degraded").message
    assert cluster.active() == ["fed-r2-maze-a1", "fed-r2-wordle-a1"]
    cluster.answer("fed-r2-wordle-a1").turn()
    assert cluster.condition("Degraded").status == "False"


def test_below_the_minimum_the_round_fails_and_says_what_to_do():
    cluster = Cluster("maze", "wordle").turn()
    cluster.set("fed-r1-maze-a1", "failed", exit_code=42, message="no such model").turn()
    assert cluster.status.phase == "Failed"
    assert cluster.active() == []
    message = cluster.condition("Progressing").message
    assert "no such model" in message
    assert "minimumUpdates" in message
    assert cluster.wake_at is None


@pytest.mark.parametrize("way", ["spec", "retry"])
def test_a_failed_round_resumes_under_the_next_number_from_the_same_start(way):
    cluster = Cluster("maze").turn().set("fed-r1-maze-a1", "failed", exit_code=42).turn()
    assert cluster.status.phase == "Failed"
    if way == "spec":
        cluster.change(training={"epochs": 1})
    else:
        cluster.annotate(ANNOTATION_RETRY, "1")
    assert cluster.active() == ["fed-r2-maze-a1"]
    assert cluster.status.current.start.round == 0
    assert cluster.status.completed == 0
    assert cluster.status.history[1].outcome == "failed"


def test_the_timeout_counts_from_the_first_running_client_and_then_the_minimum_is_enough():
    cluster = Cluster("maze", "wordle", participation={"minimumUpdates": 1}).turn()
    cluster.set("fed-r1-wordle-a1", "queued").turn()
    cluster.now = later(500)
    cluster.set("fed-r1-maze-a1", "succeeded", started_at=later(500)).turn()
    cluster.plan_at(4000)
    assert cluster.status.current.members is None
    assert cluster.wake_at == later(500 + 3600)
    cluster.plan_at(4100)
    assert cluster.active() == ["fed-r1-aggregator-a1"]
    assert {e.name: e.state for e in cluster.status.current.environments}["wordle"] == "Failed"


def test_a_client_that_does_not_start_in_time_has_failed():
    cluster = Cluster("maze", participation={"retries": 0}).turn()
    cluster.set("fed-r1-maze-a1", "starting", message="0/3 nodes have a GPU").turn()
    assert cluster.wake_at == later(600)
    cluster.plan_at(600)
    assert cluster.status.phase == "Failed"
    assert "0/3 nodes have a GPU" in cluster.status.failed.message
    assert cluster.active() == []


def test_a_queued_job_runs_no_clock():
    cluster = Cluster("maze").turn().set("fed-r1-maze-a1", "queued").turn()
    cluster.plan_at(10**6)
    assert cluster.status.environments[0].state == "Queued"
    assert cluster.wake_at is None


def test_a_vanished_job_is_created_again():
    cluster = Cluster("maze").turn()
    cluster.jobs.clear()
    assert cluster.turn().active() == ["fed-r1-maze-a1"]


@pytest.mark.parametrize(
    ("fields", "attempts"),
    [
        pytest.param({"state": "succeeded", "report": None}, 5, id="a lost report"),
        pytest.param({"state": "failed", "exit_code": 44}, 5, id="a dead store"),
        pytest.param({"state": "failed", "reason": "Disrupted"}, 5, id="a disruption"),
    ],
)
def test_what_is_nobodys_fault_is_retried_without_counting(fields, attempts):
    cluster = Cluster("maze", participation={"retries": 0}).turn()
    for attempt in range(1, attempts + 1):
        cluster.set(f"fed-r1-maze-a{attempt}", **fields).turn()
        cluster.plan_at(60 * attempt)
    assert cluster.active() == [f"fed-r1-maze-a{attempts + 1}"]
    assert cluster.status.current.environments[0].failures == 0


def test_a_dead_store_is_waited_for_only_until_the_deadline():
    cluster = Cluster("maze").turn().set("fed-r1-maze-a1", "failed", exit_code=44).turn()
    cluster.plan_at(3600)
    assert cluster.status.phase == "Failed"


def test_a_report_of_another_round_is_a_lost_one():
    cluster = Cluster("maze").turn()
    report = make_report(cluster.requests["fed-r1-maze-a1"]).model_copy(update={"round": 9})
    cluster.set("fed-r1-maze-a1", "succeeded", report=report).turn()
    assert cluster.status.current.environments[0].state == "Retrying"


def test_who_was_stopped_with_a_failed_round_has_not_failed():
    cluster = Cluster("maze", "wordle", participation={"retries": 0}).turn()
    cluster.set("fed-r1-maze-a1", "failed", exit_code=42, message="no such world").turn()
    assert cluster.status.phase == "Failed"
    assert cluster.condition("Degraded").message == "maze: no such world"
    lines = {line.name: line for line in cluster.status.environments}
    assert (lines["wordle"].state, lines["wordle"].healthy) == ("Waiting", True)
    assert lines["wordle"].message == "was stopped: the round could not reach its minimum"


@pytest.mark.parametrize(
    "names, failed, answered, sentence",
    [
        pytest.param(
            ("maze", "wordle"),
            {"maze": "no such world"},
            (),
            "maze: no such world. Round 1 failed: 0 of 2 environments answered, "
            "participation.minimumUpdates needs 2; wordle was stopped with it. ",
            id="the others are stopped",
        ),
        pytest.param(
            ("babyai", "maze", "wordle"),
            {"babyai": "no disk", "maze": "no disk"},
            ("wordle",),
            "babyai, maze: no disk. Round 1 failed: 1 of 3 environments answered (wordle), "
            "participation.minimumUpdates needs 3. ",
            id="one cause of two is told once, and who answered is named",
        ),
        pytest.param(
            ("babyai", "maze", "wordle"),
            {"babyai": "no disk"},
            (),
            "babyai: no disk. Round 1 failed: 0 of 3 environments answered, "
            "participation.minimumUpdates needs 3; maze and wordle were stopped with it. ",
            id="several are stopped",
        ),
    ],
)
def test_a_failed_round_tells_the_cause_first_and_once(names, failed, answered, sentence):
    cluster = Cluster(*names, participation={"retries": 0}).turn()
    for name in answered:
        cluster.answer(f"fed-r1-{name}-a1")
    for name, why in failed.items():
        cluster.set(f"fed-r1-{name}-a1", "failed", exit_code=42, message=why)
    message = cluster.turn().status.failed.message
    assert message.startswith(sentence)
    assert message.endswith("then change the spec or run `hansa retry`")


def test_a_failing_aggregator_is_retried_and_then_the_round_fails():
    cluster = Cluster("maze", participation={"retries": 1}).turn().answer("fed-r1-maze-a1").turn()
    cluster.set("fed-r1-aggregator-a1", "failed", exit_code=1).turn()
    cluster.plan_at(1)
    assert cluster.active() == ["fed-r1-aggregator-a2"]
    cluster.set("fed-r1-aggregator-a2", "failed", exit_code=1, message="no disk").turn()
    assert cluster.status.phase == "Failed"
    assert cluster.status.failed.reason == "AggregationFailed"
    assert "no disk" in cluster.status.failed.message


def test_too_few_updates_past_the_gate_fails_the_round_at_once():
    cluster = Cluster("maze").turn().answer("fed-r1-maze-a1").turn()
    cluster.set("fed-r1-aggregator-a1", "failed", exit_code=43).turn()
    assert cluster.status.phase == "Failed"
    assert "gate" in cluster.status.failed.message


def test_an_aggregators_lost_or_senseless_report_runs_it_again():
    cluster = Cluster("maze").turn().answer("fed-r1-maze-a1").turn()
    cluster.set("fed-r1-aggregator-a1", "succeeded", report=None).turn()
    cluster.plan_at(1)
    report = make_report(cluster.requests["fed-r1-aggregator-a2"])
    report = report.model_copy(update={"members": [7]})
    cluster.set("fed-r1-aggregator-a2", "succeeded", report=report).turn()
    assert cluster.status.round == 1
    assert cluster.status.current.aggregator.attempt == 3


def test_an_aggregator_that_hangs_fails_the_round():
    cluster = Cluster("maze").turn().answer("fed-r1-maze-a1").turn()
    cluster.set("fed-r1-aggregator-a1", "running").turn()
    assert cluster.wake_at == later(3600)
    cluster.plan_at(3600)
    assert cluster.status.failed.reason == "AggregationFailed"
    assert cluster.active() == []


def test_a_refused_update_is_told_and_degrades_its_environment():
    cluster = Cluster("maze", "wordle", participation={"minimumUpdates": 1}).turn()
    cluster.answer(*cluster.active()).turn()
    report = make_report(cluster.requests["fed-r1-aggregator-a1"])
    report = report.model_copy(update={"members": [0], "refused": [(1, "not-finite")]})
    cluster.set("fed-r1-aggregator-a1", "succeeded", report=report).turn()
    assert cluster.condition("Degraded").status == "True"
    assert "wordle: its update was refused: not-finite" in cluster.condition("Degraded").message
    assert "UpdateRefused" in [e.reason for e in cluster.events]


def test_an_environment_that_cannot_evaluate_does_not_hold_up_the_end():
    cluster = Cluster("maze", "wordle", rounds=1).run_round()
    cluster.answer("fed-e1-maze-a1").set("fed-e1-wordle-a1", "failed", exit_code=42).turn()
    assert cluster.status.phase == "Succeeded"
    assert cluster.condition("Degraded").status == "True"
    assert cluster.status.success == "0.500"  # the base: the last adapter was not played by all


def test_an_evaluation_that_takes_too_long_is_given_up():
    cluster = Cluster("maze", rounds=1).run_round()
    cluster.set("fed-e1-maze-a1", "running").turn()
    cluster.plan_at(4000)
    assert cluster.status.phase == "Succeeded"
    assert cluster.status.environments[0].healthy is False
