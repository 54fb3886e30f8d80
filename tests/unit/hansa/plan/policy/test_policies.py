"""Each decision of the plan, as a table."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from hansa.api.jobs import ObservedJob
from hansa.plan.policy import deadline, quorum, retention, retry

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("updated", "empty", "pending", "minimum", "timed_out", "expected"),
    [
        pytest.param(5, 0, 0, 5, False, "aggregate", id="everyone is here: aggregate at once"),
        pytest.param(3, 0, 2, 3, False, "wait", id="the minimum is in, but there is time: wait"),
        pytest.param(3, 0, 2, 3, True, "aggregate", id="minimum and time spent: aggregate"),
        pytest.param(2, 0, 3, 3, True, "fail", id="time spent below the minimum: fail"),
        pytest.param(2, 0, 0, 3, False, "fail", id="all concluded below the minimum: fail"),
        pytest.param(2, 0, 0, 2, False, "aggregate", id="the others failed for good: no waiting"),
        pytest.param(1, 0, 1, 3, False, "fail", id="the minimum is out of reach: fail at once"),
        pytest.param(2, 1, 0, 3, False, "aggregate", id="who has nothing to learn has answered"),
        pytest.param(0, 3, 0, 3, False, "empty", id="nobody has anything to learn: empty"),
        pytest.param(0, 2, 1, 2, True, "empty", id="empty after the timeout too"),
        pytest.param(0, 2, 1, 2, False, "wait", id="the last one may bring an update: wait"),
    ],
)
def test_quorum(updated, empty, pending, minimum, timed_out, expected):
    decision = quorum.decide(
        updated=updated, empty=empty, pending=pending, minimum=minimum, timed_out=timed_out
    )
    assert decision == expected


@pytest.mark.parametrize(
    ("exit_code", "fields", "again", "counted"),
    [
        pytest.param(1, {}, True, True, id="a crash is retried and counts"),
        pytest.param(137, {}, True, True, id="a signal is a crash"),
        pytest.param(None, {}, True, True, id="no exit code at all is a crash"),
        pytest.param(1, {"failures": 2}, False, True, id="the retries are spent"),
        pytest.param(42, {}, False, True, id="a permanent error is not retried"),
        pytest.param(43, {}, False, True, id="too few updates is not retried"),
        pytest.param(44, {"failures": 9}, True, False, id="a dead store never counts"),
        pytest.param(
            None, {"reason": "Disrupted", "failures": 9}, True, False, id="nor a disruption"
        ),
        pytest.param(
            None, {"reason": "CannotStart"}, False, True, id="what cannot start fails fast"
        ),
    ],
)
def test_retry(exit_code, fields, again, counted):
    failed = replace(
        _job("failed", "failed", 1), exit_code=exit_code, reason=fields.get("reason", "")
    )
    verdict = retry.judge_failure(failed, failures=fields.get("failures", 0), retries=2)
    assert (verdict.again, verdict.counted) == (again, counted)


def test_the_pause_before_an_attempt_doubles_up_to_a_minute():
    assert [retry.delay_seconds(n) for n in (1, 2, 3, 7, 50)] == [1, 2, 4, 60, 60]


def test_no_clock_runs_before_the_start():
    assert deadline.compute_end(None, 10) is None
    assert not deadline.is_over(None, NOW)
    assert deadline.find_earliest(None, None) is None


def _job(name, state, round_):
    return ObservedJob(name=name, role="client", round=round_, state=state, created_at=NOW)


def test_active_jobs_nobody_wants_and_old_finished_ones_go():
    observed = [
        _job("wanted", "running", 5),
        _job("straggler", "running", 5),
        _job("queued", "queued", 4),
        _job("newest", "failed", 5),
        _job("last", "succeeded", 4),
        _job("old", "succeeded", 3),
    ]
    assert retention.list_deletable(observed, {"wanted"}, 5) == ["old", "queued", "straggler"]
