"""One screen answers why a federation is stalled."""

from dataclasses import replace
from typing import Any

import pytest

from hansa.cli.views.federation import (
    RowTable,
    StatusView,
    describe_pod_state,
    list_federations,
    list_news,
    screen,
)
from hansa.core.durations import format_duration
from hansa.kubernetes.state import find_closed_round, has_failed, has_succeeded
from tests.support.builders import later, make_federation, make_job
from tests.support.status_views import job, look_at, open_round, run, stamp

DONE = run(make_federation(), lambda request: make_job(request, "succeeded"), until=30)
FAILED = run(
    make_federation(), lambda request: make_job(request, "failed", exit_code=42, message="no world")
)


def table_of(shown: StatusView, first: str) -> RowTable:
    """A table by its first title."""
    return next(t for t in shown.tables if t.titles[0] == first)


def rows(shown: StatusView, first: str) -> dict[str, dict[str, str]]:
    """A table by its first title, each row by its first cell."""
    table = table_of(shown, first)
    return {row[0]: dict(zip(table.titles, row, strict=True)) for row in table.rows}


def test_an_open_round_says_whom_it_waits_for_and_until_when() -> None:
    shown = screen(look_at(open_round(minimumUpdates=2, roundTimeoutSeconds=600)), later(60))
    assert "Running, round 1 open since" in shown.headline
    assert "0 of 2 rounds done" in shown.headline
    assert shown.lines[0] == "waits for maze (Running), wordle (Starting); 1 of 3 have answered"
    assert shown.lines[1].endswith("(in 9m): then 2 of 3 answers are enough")
    assert shown.warnings == []


def test_environments_come_with_state_attempt_clock_and_reason() -> None:
    found = rows(screen(look_at(open_round(startTimeoutSeconds=300)), later(60)), "ENVIRONMENT")
    assert found["wordle"]["STATE"] == "Starting"
    assert found["wordle"]["UNTIL"].endswith("(in 4m)")
    assert "Insufficient nvidia.com/gpu" in found["wordle"]["MESSAGE"]
    assert found["wordle"]["JOB"] == "fed-r1-wordle-a1"
    assert found["babyai"]["SUCCESS"] == "50.0%"
    assert list(found) == ["wordle", "maze", "babyai"], "those that need attention come first"


def test_the_start_clock_counts_from_the_pod_where_there_is_one() -> None:
    owner = [{"kind": "Job", "name": "fed-r1-wordle-a1"}]
    made = {"creationTimestamp": stamp(later(30)), "ownerReferences": owner}
    pod = {"metadata": made, "status": {"phase": "Pending"}}
    shown = screen(look_at(open_round(startTimeoutSeconds=300), pods=[pod]), later(60), wide=True)
    row = rows(shown, "ENVIRONMENT")["wordle"]
    assert row["UNTIL"].endswith("(in 4m30s)")
    assert row["POD"] == "Pending"


def test_a_retry_shows_when_its_next_attempt_comes() -> None:
    def seen(request: Any) -> Any:
        if request.attempt > 1:
            return None
        return make_job(request, "failed", exit_code=1, message="was killed")

    shown = screen(look_at(run(make_federation("maze"), seen)), later(0))
    row = rows(shown, "ENVIRONMENT")["maze"]
    assert (row["STATE"], row["ATTEMPT"], row["MESSAGE"]) == ("Retrying", "2", "was killed")
    assert "in " in row["UNTIL"]


def test_the_aggregator_is_waited_for_by_name() -> None:
    def seen(request: Any) -> Any:
        return make_job(request, "running" if request.role == "aggregator" else "succeeded")

    shown = screen(look_at(run(make_federation(), seen)), later(10))
    assert shown.lines[0] == "waits for the aggregator (attempt 1)"
    assert "the aggregator must be done, or the round fails" in shown.lines[1]


def test_a_failed_round_shows_what_to_do() -> None:
    shown = screen(look_at(FAILED), later(10))
    progress = rows(shown, "CONDITION")["Progressing"]
    assert progress["REASON"] == "TooFewUpdates"
    assert "hansa retry" in progress["MESSAGE"]
    assert shown.warnings == [], "it waits for a person, not for an operator"


def test_a_finished_federation_shows_its_adapter_and_its_history() -> None:
    shown = screen(look_at(DONE), later(60), wide=True)
    assert (
        shown.headline == "fed: Succeeded, 2 of 2 rounds done, success 50.0% (best 50.0%, round 0)"
    )
    assert shown.footer == ["adapter of round 2: s3://bucket/run/global/00002/"]
    outcomes = [row[1] for row in table_of(shown, "ROUND").rows]
    assert outcomes == ["base", "aggregated", "aggregated"]


def test_what_joining_brought_each_environment_is_said_below() -> None:
    asked = make_federation(rounds=1, evaluation={"alone": True}, personalization="best")
    done = run(asked, lambda request: make_job(request, "succeeded"), until=30)
    shown = screen(look_at(done), later(60), wide=True)
    sentence = "joining brought you +70.0 points (+26.6 to +86.5)"
    assert shown.footer[0] == f"babyai: alone 10.0%, shared 50.0%, served 80.0%: {sentence}"
    assert shown.footer[-1].startswith("adapter of round 1")
    row = rows(shown, "ENVIRONMENT")["babyai"]
    assert (row["ALONE"], row["SUCCESS"], row["SERVED"]) == ("10.0%", "50.0%", "80.0%")


def test_what_joining_brought_many_is_cut_to_a_screen() -> None:
    names = [f"silo-{i:02d}" for i in range(30)]
    asked = make_federation(*names, rounds=1, evaluation={"alone": True})
    done = run(asked, lambda request: make_job(request, "succeeded"), until=30)
    short, whole = (screen(look_at(done), later(1), wide=wide) for wide in (False, True))
    assert short.footer[20] == "and 10 more: -o wide"
    assert len(whole.footer) == 30 + 1


def test_a_suspended_federation_says_how_to_go_on() -> None:
    shown = screen(look_at(run(make_federation(suspend=True), lambda r: None)), later(5))
    assert shown.lines == ["it is suspended: `hansa resume` continues with the same attempts"]


def test_many_environments_are_cut_to_a_screen_and_wide_shows_all() -> None:
    names = [f"silo-{i:02d}" for i in range(60)]
    many = run(make_federation(*names), lambda r: make_job(r, "running"))
    short, whole = (screen(look_at(many), later(1), wide=wide) for wide in (False, True))
    assert len(rows(short, "ENVIRONMENT")) == 20
    assert table_of(short, "ENVIRONMENT").rest.startswith("and 40")
    assert len(rows(whole, "ENVIRONMENT")) == 60


def test_events_are_shown_newest_last() -> None:
    events = [
        {"reason": f"R{i}", "lastTimestamp": stamp(later(100 - i)), "message": f"m{i}", "count": 1}
        for i in range(12)
    ]
    table = table_of(screen(look_at(DONE, events=events), later(200)), "EVENT")
    assert [row[0] for row in table.rows] == [f"R{i}" for i in reversed(range(8))]
    assert table.rest == "and 4 older: -o wide"


def test_an_event_of_the_newer_kind_has_its_time_elsewhere() -> None:
    event = {"reason": "New", "eventTime": "2026-01-01T00:00:10.123456Z", "message": "two\nlines"}
    event["series"] = {"count": 3, "lastObservedTime": "2026-01-01T00:01:00.000000Z"}
    row = rows(screen(look_at(DONE, events=[event]), later(70)), "EVENT")["New"]
    assert (row["AGE"], row["MESSAGE"]) == ("10s", "two lines (x3)")


@pytest.mark.parametrize(
    "federation, now, jobs, sentence",
    [
        pytest.param(
            make_federation(), 90, [], "no operator has looked at it for 1m30s", id="never seen"
        ),
        pytest.param(
            open_round(roundTimeoutSeconds=100),
            300,
            None,
            "the deadline of round 1 passed 3m20s ago, and no operator has acted on it",
            id="a deadline that nobody kept",
        ),
        pytest.param(
            open_round(),
            120,
            [],
            "maze: its Job fed-r1-maze-a1 is not there, and the status is 2m old",
            id="a Job that was never made",
        ),
        pytest.param(
            open_round(),
            120,
            [
                job(
                    "fed-r1-maze-a1",
                    conditions=[
                        {
                            "type": "Complete",
                            "status": "True",
                            "lastTransitionTime": stamp(later(30)),
                        }
                    ],
                ),
                job("fed-r1-wordle-a1"),
            ],
            "maze: its Job ended 1m30s ago, and the status does not know it",
            id="a Job that ended unnoticed",
        ),
    ],
)
def test_a_dead_operator_is_told_by_what_has_not_happened(
    federation: Any, now: float, jobs: Any, sentence: str
) -> None:
    warnings = screen(look_at(federation, jobs=jobs), later(now)).warnings
    assert warnings[0] == sentence
    assert "kubectl get pods -A -l" in warnings[-1]


def test_an_operator_that_fails_is_not_told_to_be_dead() -> None:
    look = look_at(make_federation())
    failing = {"type": "Progressing", "status": "False", "reason": "OperatorError"}
    look.federation["status"] = {**look.federation["status"], "conditions": [failing]}
    assert screen(look, later(90)).warnings == []


def test_a_minute_of_silence_is_no_sign_of_death() -> None:
    for federation in (make_federation(), open_round()):
        assert screen(look_at(federation, jobs=[]), later(50)).warnings == []


@pytest.mark.parametrize("what, before", [("retry", ""), ("rollback", "0@")])
def test_what_was_asked_for_and_nobody_acts_on_is_a_sign_of_death(what: str, before: str) -> None:
    look = look_at(FAILED)
    asked = f"{before}{later(10).isoformat()}"
    look.federation["metadata"]["annotations"] = {f"hansa.dev/{what}": asked}
    assert screen(look, later(40)).warnings == []
    assert f"a {what} was asked for 1m20s ago" in screen(look, later(90)).warnings[0]
    state = look.federation["status"]
    (state if what == "rollback" else state["failed"])[what] = asked
    assert screen(look, later(90)).warnings == []


def test_who_may_not_read_jobs_is_not_told_that_they_are_missing() -> None:
    look = look_at(open_round(), jobs=[], notes=["me may not list jobs.batch in namespace x"])
    shown = screen(look, later(120))
    assert shown.warnings == []
    assert shown.footer == ["not shown: me may not list jobs.batch in namespace x"]


def test_the_list_has_the_columns_of_kubectl_get() -> None:
    found = [look_at(f).federation for f in (DONE, open_round(), make_federation())]
    table = list_federations(found, later(3600), wide=False, spaces=False)
    assert table.titles == ("NAME", "PHASE", "ROUND", "UPDATES", "SUCCESS", "AGE")
    assert table.rows[1] == ("fed", "Running", "1/2", "1/3", "", "1h")
    assert table.rows[2] == ("fed", "Pending", "0/2", "", "", "1h")
    wide = list_federations(found, later(3600), wide=True, spaces=True)
    assert (wide.titles[0], wide.titles[-1]) == ("NAMESPACE", "MESSAGE")


def test_lines_for_a_pipe_tell_rounds_and_progress() -> None:
    lines = list_news(look_at(DONE).federation)
    assert lines[1] == "round 1: aggregated 3/3, success 50.0%"
    assert lines[-1] == "Succeeded: all rounds are done"
    assert list_news({"metadata": {}})[-1] == "Pending: no operator has seen it yet"


def test_ends_count_only_for_the_newest_spec_and_the_newest_retry() -> None:
    done, failed = look_at(DONE).federation, look_at(FAILED).federation
    assert has_succeeded(done) and has_failed(failed)
    done["metadata"]["generation"] = 2
    failed["metadata"]["annotations"] = {"hansa.dev/retry": "again"}
    assert not has_succeeded(done) and not has_failed(failed)


def test_a_round_is_closed_when_the_next_opens_or_all_is_done() -> None:
    assert find_closed_round(look_at(open_round()).federation) == 0
    assert find_closed_round(look_at(DONE).federation) == 2
    assert find_closed_round({"metadata": {}}) == 0


@pytest.mark.parametrize(
    "status, said",
    [
        ({"phase": "Running"}, "Running"),
        ({}, ""),
        (
            {"containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]},
            "ImagePullBackOff",
        ),
        (
            {
                "phase": "Pending",
                "conditions": [
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
                ],
            },
            "Unschedulable",
        ),
    ],
)
def test_a_pod_in_a_word(status: Any, said: str) -> None:
    assert describe_pod_state({"status": status}) == said


@pytest.mark.parametrize(
    "seconds, said",
    [(0, "0s"), (59, "59s"), (60, "1m"), (250, "4m10s"), (12_000, "3h20m"), (187_200, "2d4h")],
)
def test_spans_have_at_most_two_units(seconds: float, said: str) -> None:
    assert format_duration(seconds) == said


PRIVATE = {
    "privacy": {"epsilon": 8.0, "delta": 1e-4},
    "training": {"maxSteps": 4},
    "environments": [
        {"name": "maze", "world": "maze", "experienceStorage": {"s3": {"bucket": "own"}}}
    ],
}


def test_with_privacy_the_screen_has_epsilon_and_no_count_that_stays_in_the_silo() -> None:
    def answered(request: Any) -> Any:
        job = make_job(request, "succeeded")
        is_silo = request.role != "aggregator"
        report = job.report.model_copy(update={"epsilon": 2.5}) if is_silo else job.report
        return replace(job, report=report)

    private = look_at(run(make_federation("maze", **PRIVATE), answered, until=30))
    row = rows(screen(private, later(60), wide=True), "ENVIRONMENT")["maze"]
    assert row["EPSILON"] == "2.500"
    assert "/" not in row["EXPLORED"]
    plain = screen(look_at(DONE), later(60), wide=True)
    assert "EPSILON" not in table_of(plain, "ENVIRONMENT").titles
