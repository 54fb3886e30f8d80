"""spec.tracking in the plan: a Job beside the rounds, which nobody waits for."""

import json
from datetime import datetime
from typing import Any

import pytest

from hansa.api import EventReason
from hansa.exits import Exit
from hansa.jobs import JobRequest, ObservedJob, Plan
from hansa.plan import plan
from hansa.policy import tracking
from hansa.status import Federation
from hansa.tracking.task import MOST_BYTES, TrackerReport, TrackerTask
from tests.builders import NOW, later, make_federation, make_job, with_spec, with_status
from tests.tracked import SECRET, WORDS, make_tracked

MLFLOW = {"to": "mlflow", "url": "http://mlflow:5000", "experiment": "agents"}
DONE = TrackerReport(runs=3, figures=10)


class Cluster:
    """A federation whose Jobs end as a test says: clients well, trackers by `tracker`."""

    def __init__(self, federation: Federation, tracker: dict[str, Any]) -> None:
        self.federation, self.tracker = federation, tracker
        self.jobs: dict[str, ObservedJob] = {}
        self.asked: list[JobRequest] = []
        self.events: list[EventReason] = []

    def turn(self, now: datetime = NOW) -> Plan:
        next_ = plan(self.federation, list(self.jobs.values()), now)
        self.federation = with_status(self.federation, next_.status)
        self.events += [event.reason for event in next_.events]
        for name in next_.delete:
            self.jobs.pop(name)
        for request in next_.create:
            is_tracker = request.role == "tracker"
            if is_tracker:
                self.asked.append(request)
            fields = dict(self.tracker) if is_tracker else {"state": "succeeded"}
            self.jobs[request.name] = make_job(request, fields.pop("state"), **fields)
        return next_

    def run(self, turns: int = 60, now: datetime = NOW) -> None:
        for _ in range(turns):
            self.turn(now)

    def condition(self, type_: str = "Tracked") -> Any:
        held = [c for c in self.federation.status.conditions if c.type == type_]
        return held[0] if held else None


def tracked(**fields: Any) -> Federation:
    return make_federation("maze", "wordle", **{"tracking": MLFLOW, **fields})


WELL = {"state": "succeeded", "report": DONE}


def test_every_round_and_the_end_are_exported_once_each() -> None:
    cluster = Cluster(tracked(), WELL)
    cluster.run()
    assert cluster.federation.status.phase == "Succeeded"
    names = [request.name for request in cluster.asked]
    assert names[:3] == ["fed-track-a1", "fed-track-a2", "fed-track-a3"]
    assert len(set(names)) == len(names)
    assert [request.assignment.state for request in cluster.asked] == [
        *["running"] * (len(names) - 1),
        "finished",
    ]
    assert 3 <= len(names) <= 5  # the opening, two rounds, the last evaluation, the end
    last = cluster.asked[-1].assignment
    assert last.record().silos[0].points[0].metric == "episodes"
    assert cluster.condition().status == "True"
    assert "round 2" in cluster.condition().message
    before = cluster.federation.status
    assert plan(cluster.federation, list(cluster.jobs.values()), NOW).status == before


def test_the_plan_without_tracking_is_as_it_was() -> None:
    cluster = Cluster(make_federation("maze", "wordle"), WELL)
    cluster.run()
    assert cluster.asked == []
    assert cluster.federation.status.tracking is None
    assert cluster.condition() is None


@pytest.mark.parametrize(
    "tracker",
    [
        pytest.param({"state": "failed", "exit_code": int(Exit.TRACKER_FAILED)}, id="away"),
        pytest.param({"state": "failed", "exit_code": int(Exit.PERMANENT)}, id="wrong"),
        pytest.param({"state": "failed", "reason": "CannotStart"}, id="cannot start"),
        pytest.param({"state": "failed", "exit_code": 137}, id="killed"),
        pytest.param({"state": "succeeded", "report": None}, id="report lost"),
        pytest.param({"state": "starting", "message": "no node"}, id="never starts"),
        pytest.param({"state": "running"}, id="never ends"),
    ],
)
def test_a_tracker_that_fails_changes_nothing_but_its_own_lines(tracker: dict[str, Any]) -> None:
    plain, cluster = Cluster(make_federation("maze", "wordle"), WELL), Cluster(tracked(), tracker)
    plain.run()
    for seconds in range(0, 6000, 100):
        cluster.run(turns=2, now=later(seconds))
    ours, theirs = cluster.federation.status, plain.federation.status
    assert ours.phase == theirs.phase == "Succeeded"
    outcome = [(e.round, e.outcome, e.success) for e in theirs.history]
    assert [(e.round, e.outcome, e.success) for e in ours.history] == outcome
    assert cluster.condition("Degraded").status == "False"
    if tracker["state"] in ("failed", "succeeded"):
        assert cluster.condition().reason == "TrackerFailed"
        assert "TrackingFailed" in cluster.events


def test_a_tracker_that_is_away_is_asked_again_with_growing_pauses_and_not_for_ever() -> None:
    away = {"state": "failed", "exit_code": int(Exit.TRACKER_FAILED), "message": "it is away"}
    cluster = Cluster(tracked(), away)
    cluster.run()
    status = cluster.federation.status
    assert status.phase == "Succeeded"
    first = len(cluster.asked)
    for seconds in range(10, 4000, 10):
        cluster.run(turns=2, now=later(seconds))
    assert len(cluster.asked) - first == tracking.RETRIES
    assert "it is away" in cluster.condition().message
    assert cluster.events.count("TrackingFailed") <= first
    cluster.tracker = WELL
    cluster.federation = with_spec(cluster.federation, rounds=3)  # a changed spec tries again
    cluster.run(now=later(5000))
    assert cluster.condition().status == "True"
    assert len({request.name for request in cluster.asked}) == len(cluster.asked)


def test_what_only_a_person_can_cure_is_tried_once_a_round() -> None:
    wrong = {"state": "failed", "exit_code": int(Exit.PERMANENT), "message": "wrong password"}
    cluster = Cluster(tracked(), wrong)
    cluster.run()
    tried = len(cluster.asked)
    for seconds in range(100, 20000, 1000):
        cluster.run(turns=2, now=later(seconds))
    assert len(cluster.asked) == tried
    assert cluster.federation.status.tracking.gave_up == 1


def test_a_job_that_vanished_is_asked_for_again_under_its_name() -> None:
    cluster = Cluster(tracked(), {"state": "running"})
    while not cluster.asked:
        cluster.turn()
    [first] = cluster.asked
    del cluster.jobs[first.name]
    cluster.turn()
    assert [each.name for each in cluster.asked] == [first.name] * 2


def test_while_one_job_runs_no_second_is_made() -> None:
    cluster = Cluster(tracked(), {"state": "running"})
    cluster.run()
    assert len(cluster.asked) == 1
    assert cluster.federation.status.phase == "Succeeded"


def test_a_suspended_federation_has_no_tracker() -> None:
    cluster = Cluster(tracked(), {"state": "running"})
    cluster.run(turns=5)
    cluster.federation = with_spec(cluster.federation, suspend=True)
    cluster.run(turns=3)
    assert not [job for job in cluster.jobs.values() if job.role == "tracker"]


def test_another_address_gets_all_of_it() -> None:
    cluster = Cluster(tracked(), WELL)
    cluster.run()
    exports = len(cluster.asked)
    cluster.federation = with_spec(cluster.federation, tracking={**MLFLOW, "url": "http://new:1"})
    cluster.run(turns=6)
    assert len(cluster.asked) == exports + 1
    assert cluster.asked[-1].assignment.url == "http://new:1"


def test_a_job_is_handed_numbers_and_settings_and_no_text_of_an_episode() -> None:
    federation = make_tracked()
    spec = federation.spec.model_copy(update={"tracking": tracked().spec.tracking})
    cluster = Cluster(federation.model_copy(update={"spec": spec}), WELL)
    cluster.run(turns=4)
    text = cluster.asked[0].assignment.model_dump_json()
    assert "success" in text
    assert WORDS not in text
    assert SECRET not in text


def test_a_hundred_silos_and_fifty_rounds_fit_into_an_assignment() -> None:
    names = [f"a-silo-with-a-long-name-{n:03}" for n in range(100)]
    federation = make_federation(*names, rounds=50, tracking=MLFLOW)
    cluster = Cluster(federation, WELL)
    for _ in range(8):
        cluster.run(turns=4)
    ratios = dict.fromkeys(names, 0.12345678)
    entry = cluster.federation.status.history[-1]
    history = [
        entry.model_copy(
            update={"round": n, "success": ratios, "episodes": dict.fromkeys(names, 7)}
        )
        for n in range(50)
    ]
    status = cluster.federation.status.model_copy(update={"history": history})
    cluster.federation = with_status(cluster.federation, status)
    cluster.run(turns=4)
    task: TrackerTask = cluster.asked[-1].assignment
    assert len(task.model_dump_json(by_alias=True, exclude_none=True)) <= MOST_BYTES
    steps = {point.step for run in task.record().runs for point in run.points}
    assert max(steps) == 49
    assert 3 <= len(steps) < 50


def test_a_record_comes_back_as_it_was_sent() -> None:
    cluster = Cluster(tracked(), WELL)
    cluster.run()
    task = cluster.asked[-1].assignment
    text = task.model_dump_json(by_alias=True, exclude_none=True)
    again = TrackerTask.model_validate_json(text)
    assert again.record() == task.record()
    assert json.loads(text)["runs"][0]["figures"]["success"] == {"0": 0.5, "1": 0.5, "2": 0.5}


def test_an_end_that_closes_no_round_is_exported_too() -> None:
    cluster = Cluster(tracked(), WELL)
    cluster.run()
    spec, done = cluster.federation.spec, cluster.federation.status
    goes_on = done.model_copy(update={"phase": "Running"})
    assert tracking.mark(spec, goes_on) != tracking.mark(spec, done)


def test_a_local_run_ends_after_one_try_of_its_tracker_and_waits_for_no_dead_one() -> None:
    without = Cluster(make_federation("maze", "wordle"), WELL)
    without.run()
    assert not tracking.is_pending(without.federation)
    cluster = Cluster(tracked(), WELL)
    cluster.run()
    exported = cluster.federation
    assert not tracking.is_pending(exported)
    cleared = exported.status.model_copy(update={"tracking": None})
    waiting = with_status(exported, cleared)
    assert tracking.is_pending(waiting)
    assert not tracking.is_pending(with_spec(waiting, suspend=True))
    dead = Cluster(tracked(), {"state": "failed", "exit_code": Exit.TRACKER_FAILED})
    dead.run()
    assert not tracking.is_pending(dead.federation)
