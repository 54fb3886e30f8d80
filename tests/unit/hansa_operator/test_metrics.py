"""Metrics of the operator: each fact is counted once, by the pass that took note of it."""

from typing import Any, get_args

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hansa.api import constants
from hansa.api.assignment import AggregatorReport, ClientReport
from hansa.api.constants import Phase
from hansa.api.courier_assignment import CourierReport, LetterFaults
from hansa.api.jobs import ObservedJob, Plan
from hansa.api.task_kinds import MOST_KINDS
from hansa.core.exits import Exit
from hansa.plan.federation import plan
from hansa_operator.metric_table import METRICS
from hansa_operator.metrics import MetricsRecorder
from tests.support.builders import (
    later,
    make_federation,
    make_job,
    make_report,
    with_spec,
    with_status,
)
from tests.support.letters import Letters
from tests.support.masked_updates import dropped_out, masked

WHOSE = {"namespace": "default", "federation": "fed"}


class Run:
    """A federation whose Jobs end as told; every pass is recorded, some of them twice."""

    def __init__(self, *environments: str, **fields: Any) -> None:
        self.federation = make_federation(*environments, **fields)
        self.recorder = MetricsRecorder()
        self.jobs: dict[str, ObservedJob] = {}
        self.seconds = 0.0

    def passes(self, count: int = 30, **ends: Any) -> "Run":
        """So many passes; a Job whose name is among `ends` becomes what is given there."""
        for _ in range(count):
            self.seconds += 5
            next_ = plan(self.federation, list(self.jobs.values()), later(self.seconds))
            self.recorder.record(self.federation, next_, list(self.jobs.values()))
            self.federation = with_status(self.federation, next_.status)
            for name in next_.delete:
                self.jobs.pop(name)
            for request in next_.create:
                end = ends.get(request.name.replace("-", "_"), {"state": "succeeded"})
                if end.get("state") == "succeeded" and "report" not in end:
                    report = _timed(make_report(request))
                    if self.federation.spec.privacy and hasattr(report, "epsilon"):
                        report = report.model_copy(update={"epsilon": 2.5})
                    end = {**end, "report": report}
                self.jobs[request.name] = make_job(request, **end)
        return self

    def value(self, name: str, **labels: str) -> float | None:
        return self.recorder.registry.get_sample_value(name, {**WHOSE, **labels})

    def kind(self, environment: str, name: str) -> float | None:
        labels = {"environment": environment, "task_kind": name}
        return self.value("hansa_kind_success_ratio", **labels)


def _timed(report: Any) -> Any:
    known = {"seconds": {"explore": 4.0}, "norm": 2.5, "bytes": 100}
    return report.model_copy(update={k: v for k, v in known.items() if hasattr(report, k)})


def test_every_metric_of_the_table_is_exposed_and_parses() -> None:
    run = Run("maze").passes()
    run.recorder.record_pass("default", "fed", constants.KIND, 0.02)
    run.recorder.waiting("default", "fed", constants.KIND, 1)
    text = run.recorder.exposition().decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    for metric in METRICS:
        family = families[metric.name.removesuffix("_total")]
        assert (family.type, family.documentation) == (metric.type, metric.help)
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(metric.labels)
    assert "_created" not in text


def test_a_run_is_counted_once_however_many_passes_it_takes() -> None:
    run = Run("maze", "wordle").passes(60)
    assert run.federation.status.phase == "Succeeded"
    assert run.value("hansa_round") == 2
    assert run.value("hansa_rounds_completed_total") == 2
    assert run.value("hansa_round_seconds_count") == 2
    assert run.value("hansa_trajectories_total", environment="maze", outcome="success") == 8
    assert run.value("hansa_trajectories_total", environment="maze", outcome="failure") == 12
    assert run.value("hansa_trajectories_total", environment="maze", outcome="broken") == 2
    assert run.value("hansa_experience_trajectories", environment="wordle") == 14
    assert run.value("hansa_success_ratio", environment="maze") == 0.5
    assert run.value("hansa_update_norm", environment="maze") == 2.5
    assert run.value("hansa_update_bytes") == 100
    # two rounds, and the evaluation after the last one
    phase = {"environment": "maze", "phase": "explore"}
    assert run.value("hansa_phase_seconds_count", **phase) == 3
    assert run.value("hansa_phase_seconds_sum", **phase) == 12


@pytest.mark.parametrize(
    "end, reason",
    [
        ({"state": "failed", "exit_code": 1}, "CRASHED"),
        ({"state": "failed", "exit_code": 137}, "CRASHED"),
        ({"state": "failed", "exit_code": None}, "CRASHED"),
        ({"state": "failed", "exit_code": 42}, "PERMANENT"),
        ({"state": "failed", "exit_code": 44}, "STORAGE_UNREACHABLE"),
        ({"state": "failed", "exit_code": 45}, "WORLD_BROKEN"),
        ({"state": "failed", "reason": "Disrupted"}, "Disrupted"),
        ({"state": "failed", "reason": "CannotStart"}, "CannotStart"),
        ({"state": "failed", "reason": "DeadlineExceeded"}, "DeadlineExceeded"),
        ({"state": "succeeded", "report": None}, "ReportLost"),
    ],
)
def test_a_failed_job_is_counted_once_under_its_reason(end: Any, reason: str) -> None:
    run = Run("maze", "wordle", rounds=1).passes(fed_r1_maze_a1=end)
    assert run.value("hansa_jobs_failed_total", reason=reason) == 1


def test_a_failed_aggregator_is_counted() -> None:
    run = Run("maze").passes(fed_r1_aggregator_a1={"state": "failed", "exit_code": 1})
    assert run.value("hansa_jobs_failed_total", reason="CRASHED") == 1


def test_a_job_that_did_not_start_in_time_is_counted() -> None:
    run = Run("maze", rounds=1).passes(200, fed_r1_maze_a1={"state": "starting"})
    assert run.value("hansa_jobs_failed_total", reason="Timeout") == 1


@pytest.mark.parametrize(
    "end", [{"state": "succeeded"}, {"state": "failed", "exit_code": 43}], ids=["enough", "too few"]
)
def test_refused_updates_are_counted_by_environment_and_reason(end: Any) -> None:
    report = AggregatorReport(
        round=1, manifest="a" * 64, adapter="b" * 64, bytes=1, members=[0], refused=[(1, "shape")]
    )
    run = Run("maze", "wordle", rounds=1)
    run.passes(fed_r1_aggregator_a1={**end, "report": report})
    labels = {"environment": "wordle", "reason": "shape"}
    assert run.value("hansa_updates_rejected_total", **labels) == 1


def test_the_diagnostics_of_the_newest_round_are_shown_and_none_leave_the_last() -> None:
    report = AggregatorReport(
        round=1,
        manifest="a" * 64,
        adapter="b" * 64,
        bytes=1,
        members=[0, 1],
        norm=3.5,
        error=0.25,
        server_step=2.5,
        effective_rank=4.5,
        cosine=[0.5, -0.25],
        share=[0.75, 0.25],
    )
    run = Run("maze", "wordle").passes(
        60, fed_r1_aggregator_a1={"state": "succeeded", "report": report}
    )
    assert run.value("hansa_update_cosine", environment="wordle") == -0.25
    assert run.value("hansa_update_share_ratio", environment="maze") == 0.75
    assert run.value("hansa_aggregate_norm") == 3.5
    assert run.value("hansa_aggregate_error_ratio") == 0.25
    assert run.value("hansa_effective_rank") == 4.5
    assert run.value("hansa_server_step") == 2.5


def test_tasks_solved_and_entropy_are_those_of_the_newest_answer() -> None:
    run = Run("maze", rounds=1).passes()
    assert run.value("hansa_tasks_solved", environment="maze") == 3
    assert run.value("hansa_policy_entropy_nats", environment="maze") == 0.5


def test_success_by_kind_is_that_of_the_newest_answer() -> None:
    run = Run("maze", rounds=1).passes()
    rates = [run.kind("maze", name) for name in ("far", "near", "other")]
    assert rates == [0.25, 0.75, None]


@pytest.mark.attack(
    by="a silo",
    does="names kinds of tasks without end, or by hostile text",
    result="the report or update is malformed; metrics have at most 12 kinds per environment",
)
def test_a_silo_that_names_new_kinds_in_each_round_has_no_more_series_than_there_may_be_kinds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def renamed(report: Any) -> Any:
        if not isinstance(report, ClientReport) or report.environment:
            return report
        names = [f"{report.round}-{index}" for index in range(MOST_KINDS)]
        return report.model_copy(update={"kinds": dict.fromkeys(names, 5000)})

    monkeypatch.setattr(f"{__name__}._timed", renamed)
    run = Run("maze", "wordle", rounds=4).passes(90)
    assert run.federation.status.phase == "Succeeded"
    (family,) = (f for f in run.recorder.registry.collect() if f.name == "hansa_kind_success_ratio")
    series = [sample.labels["environment"] for sample in family.samples]
    assert (series.count("maze"), series.count("wordle")) == (MOST_KINDS, 2)
    assert (run.kind("maze", "4-0"), run.kind("maze", "1-0")) == (0.5, None)


def test_what_an_environment_would_have_had_alone_is_shown_where_it_was_measured() -> None:
    for asked, expected in ((True, 0.1), (False, None)):
        run = Run("maze", rounds=1, evaluation={"alone": asked}).passes()
        assert run.value("hansa_alone_success_ratio", environment="maze") == expected


def test_with_privacy_epsilon_is_shown_and_what_is_not_told_is_not_zero() -> None:
    own = {"s3": {"bucket": "own"}}
    run = Run(
        "maze",
        privacy={"epsilon": 8.0, "delta": 1e-4},
        training={"maxSteps": 4},
        environments=[{"name": "maze", "world": "maze", "experienceStorage": own}],
    ).passes()
    assert run.value("hansa_privacy_epsilon", environment="maze") == 2.5
    for outcome in ("success", "failure", "broken"):
        counted = run.value("hansa_trajectories_total", environment="maze", outcome=outcome)
        assert counted is None
    assert run.value("hansa_tasks_solved", environment="maze") is None
    assert run.kind("maze", "far") is None
    plain = Run("maze").passes()
    assert plain.value("hansa_privacy_epsilon", environment="maze") is None


def test_who_masks_again_has_played_nothing_new() -> None:
    end = {"state": "failed", "exit_code": Exit.MASK_AGAIN, "report": dropped_out(1, 0, 1, 2, 3)}
    run = Run(**masked(), rounds=1, participation={"minimumUpdates": 4})
    run.passes(30, fed_r1_aggregator_a1=end)
    assert run.federation.status.history[1].updates == "4/5"
    assert run.value("hansa_trajectories_total", environment="a", outcome="success") == 4
    assert run.value("hansa_phase_seconds_count", environment="a", phase="explore") == 2
    assert run.value("hansa_jobs_failed_total", reason="MASK_AGAIN") == 1


def test_a_suspended_federation_counts_nothing() -> None:
    run = Run("maze").passes(2)
    run.federation = with_spec(run.federation, suspend=True)
    run.passes(5)
    assert run.value("hansa_trajectories_total", environment="maze", outcome="success") is None


def test_an_environment_that_left_loses_its_gauges() -> None:
    run = Run("maze", "wordle").passes(4)
    assert run.value("hansa_experience_trajectories", environment="wordle") is not None
    environments = [{"name": "maze", "world": "maze"}]
    run.federation = with_spec(run.federation, environments=environments)
    run.passes(1)
    assert run.value("hansa_experience_trajectories", environment="wordle") is None
    assert run.value("hansa_experience_trajectories", environment="maze") is not None


def test_a_deleted_federation_leaves_no_series() -> None:
    run = Run("maze").passes()
    run.recorder.record_pass("default", "fed", constants.KIND, 0.02)
    run.recorder.forget("default", "fed", constants.KIND)
    families = text_string_to_metric_families(run.recorder.exposition().decode())
    assert [sample for family in families for sample in family.samples] == []


def test_a_federation_is_in_one_phase_at_a_time() -> None:
    run = Run("maze", rounds=1)
    for count, phase in ((1, "Running"), (30, "Succeeded")):
        run.passes(count)
        values = {p: run.value("hansa_federation_phase", phase=p) for p in get_args(Phase)}
        assert values == {p: float(p == phase) for p in get_args(Phase)}


class Elsewhere(Letters):
    """A coordinator whose passes are recorded."""

    def __init__(self, *clinics: str, **fields: Any) -> None:
        super().__init__(*clinics, **fields)
        self.recorder = MetricsRecorder()

    def turn(self) -> "Elsewhere":
        """Plan until it rests; each pass is recorded."""
        before, jobs = self.federation, list(self.jobs.values())
        super().turn()
        self.recorder.record(before, Plan(status=self.status), jobs)
        return self

    def value(self, name: str, **labels: str) -> float | None:
        return self.recorder.registry.get_sample_value(name, {**WHOSE, **labels})


def test_silos_elsewhere_are_counted_by_their_letters() -> None:
    run = Elsewhere("clinic").turn()
    assert run.value("hansa_member_state", environment="clinic", state="Invited") == 1
    assert run.value("hansa_member_seen_timestamp_seconds", environment="clinic") is None
    assert run.value("hansa_orders_posted_total", environment="clinic") == 0
    run.hear("clinic", "hello")
    assert run.value("hansa_member_state", environment="clinic", state="Present") == 1
    assert run.value("hansa_member_state", environment="clinic", state="Invited") == 0
    seen = run.value("hansa_member_seen_timestamp_seconds", environment="clinic")
    assert seen == later(0).timestamp()
    run.play_round("clinic")
    run.turn()
    assert run.value("hansa_orders_posted_total", environment="clinic") == 1
    for kind in ("hello", "taken", "answer"):
        assert run.value("hansa_letters_read_total", environment="clinic", letter=kind) == 1
    # what it explored is told by its answer, as by the report of a Job
    explored = {"environment": "clinic", "outcome": "success"}
    assert run.value("hansa_trajectories_total", **explored) == 4


def test_refused_letters_are_counted_by_reason_and_once() -> None:
    run = Elsewhere("clinic").turn()
    refused = {"environment": "clinic", "reason": "signature"}
    assert run.value("hansa_letters_refused_total", **refused) == 0
    faults = [
        LetterFaults(box=0, code="signature", count=3),
        LetterFaults(box=0, code="new-code", count=1),
    ]
    run.report(CourierReport(faults=faults))
    run.turn().turn()
    assert run.value("hansa_letters_refused_total", **refused) == 3
    unknown = {"environment": "clinic", "reason": "malformed"}
    assert run.value("hansa_letters_refused_total", **unknown) == 1


def test_a_courier_that_failed_is_a_failed_job() -> None:
    run = Elsewhere("clinic").turn()
    run.set("fed-mail-a1", "failed", exit_code=44).turn()
    run.turn()
    assert run.value("hansa_jobs_failed_total", reason="STORAGE_UNREACHABLE") == 1


def test_the_series_of_a_silo_that_left_the_spec_end_once_it_was_told() -> None:
    run = Elsewhere("clinic", "bank").turn()
    run.hear("clinic", "hello")
    environments = [e for e in run.federation.spec.to_json()["environments"] if e["name"] != "bank"]
    run.federation = with_spec(run.federation, environments=environments)
    run.turn()
    assert run.value("hansa_member_state", environment="bank", state="Invited") is None
    assert run.value("hansa_member_state", environment="clinic", state="Present") == 1
