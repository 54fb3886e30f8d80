"""Jobs of a cluster that ended: by an answer, a fault, a deadline or a disruption."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hansa.api.reports import encode_report
from hansa.core import logs
from hansa_operator.observe import is_lingering, observe
from tests.support.builders import NOW, later, make_report
from tests.support.terminal import is_tame
from tests.unit.hansa_operator.objects import (
    DISRUPTED,
    LATER,
    STARTED,
    live_job,
    live_pod,
    make_federation,
    make_request,
    terminated,
    waiting,
)

RUNNING = {"running": {"startedAt": STARTED}}
FAILED = ("Failed", "BackoffLimitExceeded")
REPORT = encode_report(make_report(make_request(make_federation()))).decode()


def see(job: dict[str, Any], *pods: dict[str, Any], **options: Any) -> Any:
    return observe(job, pods, **options)


@pytest.mark.parametrize("role, name", [("client", "client"), ("aggregator", "server")])
def test_an_exit_0_is_an_answer_before_the_job_controller_says_so(role: str, name: str) -> None:
    request = make_request(make_federation(), role)
    report = make_report(request)
    pod = live_pod(terminated(0, encode_report(report).decode(), "Completed"), name=name)
    seen = see(live_job(role), pod)
    assert (seen.state, seen.report, seen.started_at) == ("succeeded", report, later(30))
    assert (seen.name, seen.role, seen.round) == (request.name, role, 1)


@pytest.mark.parametrize("message", ["", "{", '{"kind": "client"}', "x" * 5000])
def test_a_lost_or_garbled_report_is_no_report(message: str) -> None:
    seen = see(live_job("client", ("Complete", "")), live_pod(terminated(0, message)))
    assert (seen.state, seen.report) == ("succeeded", None)


def test_a_finished_job_whose_pod_is_gone_has_lost_its_report() -> None:
    seen = see(live_job("client", ("Complete", "CompletionsReached")))
    assert (seen.state, seen.report, seen.started_at) == ("succeeded", None, NOW)


def test_a_failed_container_waits_for_the_verdict_of_the_job_controller() -> None:
    seen = see(live_job(), live_pod(terminated(1), phase="Failed"))
    assert (seen.state, seen.started_at) == ("running", later(30))


STOPPED_TEXT = logs.format_text(
    NOW, "client", "error", "stopped", {"message": "no such world", "hint": "try maze"}
)
STOPPED_JSON = logs.format_json(NOW, "client", "error", "stopped", {"message": "no such world"})
MISSING = "spec.training.learner: got 'mine', which no package here offers (entry point x)"
NO_PLUGIN = logs.format_json(NOW, "client", "error", "stopped", {"message": MISSING})
ENDS = [
    pytest.param(terminated(1), {}, 1, "", "the program crashed", id="crash"),
    pytest.param(terminated(44), {}, 44, "", "the object store did not answer", id="store is down"),
    pytest.param(
        terminated(45, f"{STOPPED_TEXT}\n"),
        {},
        45,
        "",
        "no such world",
        id="a broken world says it",
    ),
    pytest.param(
        terminated(42), {}, 42, "", "the specification cannot work", id="permanent, silent"
    ),
    pytest.param(
        terminated(42, f"12:00:00 evaluate\n{STOPPED_TEXT}\n"),
        {},
        42,
        "",
        "no such world (hint: try maze)",
        id="permanent, text log",
    ),
    pytest.param(
        terminated(42, f"{STOPPED_JSON}\n"), {}, 42, "", "no such world", id="permanent, JSON log"
    ),
    pytest.param(terminated(49), {}, 49, "", "the image lacks a plug-in", id="no plug-in, silent"),
    pytest.param(
        terminated(49, f"{NO_PLUGIN}\n"),
        {},
        49,
        "",
        "spec.training.learner: got 'mine', which no package here offers (entry point",
        id="no plug-in, and its name",
    ),
    pytest.param(
        terminated(1, STOPPED_TEXT),
        {},
        1,
        "",
        "the program crashed",
        id="a crash's log is not repeated",
    ),
    pytest.param(
        terminated(137, "", "OOMKilled"),
        {},
        137,
        "",
        "ran out of memory (resources.limits.memory of container client is 4Gi): raise it",
        id="out of memory",
    ),
    pytest.param(
        terminated(139), {}, 139, "", "its container was killed by signal 11", id="signal"
    ),
    pytest.param(
        terminated(128, "exec: hansa-client: not found", "StartError"),
        {},
        None,
        "CannotStart",
        "container client cannot be started (exec: hansa-client: not found)",
        id="no such program",
    ),
    pytest.param(
        terminated(137),
        {"reason": "Evicted", "message": "ephemeral storage exceeds"},
        137,
        "",
        "its Pod was evicted (ephemeral storage exceeds)",
        id="evicted for its own disk",
    ),
    pytest.param(
        None,
        {"reason": "UnexpectedAdmissionError", "message": "no healthy device"},
        None,
        "",
        "its Pod failed before its container ran (UnexpectedAdmissionError: no healthy device)",
        id="refused by its node",
    ),
]


@pytest.mark.parametrize("state, status, code, reason, message", ENDS)
def test_a_failed_job_says_why(
    state: Any, status: Any, code: Any, reason: str, message: str
) -> None:
    job = live_job("client", FAILED)
    seen = see(job, live_pod(state, phase="Failed", **status))
    assert (seen.state, seen.exit_code, seen.reason) == ("failed", code, reason)
    assert seen.message.startswith(message)
    assert not is_lingering(job, seen)


def test_a_deadline_that_ran_out_is_named() -> None:
    seen = see(live_job("client", ("FailureTarget", "DeadlineExceeded")), live_pod(RUNNING))
    assert (seen.state, seen.reason) == ("failed", "DeadlineExceeded")
    assert seen.message == "did not finish within 4200 s of its start"


def test_the_failure_policy_tells_the_exit_code_of_a_pod_that_is_gone() -> None:
    seen = see(live_job("client", ("Failed", "PodFailurePolicy")))
    assert (seen.exit_code, seen.reason) == (42, "")


def test_too_few_updates_comes_with_the_report_of_who_was_refused() -> None:
    report = make_report(make_request(make_federation(), "aggregator"))
    report = report.model_copy(update={"members": [], "refused": [(0, "shape")]})
    pod = live_pod(terminated(43, encode_report(report).decode()), name="server")
    seen = see(live_job("aggregator", FAILED), pod)
    assert (seen.state, seen.exit_code, seen.report) == ("failed", 43, report)


# -- disruptions ----------------------------------------------------------------------------------


def test_a_disrupted_pod_is_waited_for_from_its_disruption_on() -> None:
    seen = see(live_job(), live_pod(RUNNING, DISRUPTED))
    assert (seen.state, seen.reason, seen.created_at) == ("starting", "Disrupted", later(600))
    assert seen.message.startswith("its Pod was disrupted (EvictionByEvictionAPI)")


def test_the_pod_that_replaces_a_disrupted_one_is_the_one_that_counts() -> None:
    gone = live_pod(terminated(143), DISRUPTED, phase="Failed")
    seen = see(live_job(), live_pod(waiting("ContainerCreating"), created=LATER), gone)
    assert (seen.state, seen.reason, seen.created_at) == ("starting", "", later(600))
    running = see(live_job(), live_pod({"running": {"startedAt": LATER}}, created=LATER), gone)
    assert (running.state, running.started_at) == ("running", later(30))


@pytest.mark.parametrize(
    "pods",
    [
        pytest.param([live_pod(terminated(143), DISRUPTED)], id="disrupted"),
        pytest.param([], id="gone"),
    ],
)
def test_a_job_that_failed_by_a_disruption_is_nobodys_fault(pods: Any) -> None:
    seen = see(live_job("client", FAILED), *pods)
    assert (seen.state, seen.reason, seen.exit_code) == ("failed", "Disrupted", None)
    assert seen.started_at is not None


def test_a_deleted_pod_is_a_disruption() -> None:
    pod = live_pod(terminated(143))
    pod["metadata"]["deletionTimestamp"] = LATER
    seen = see(live_job("client", FAILED), pod)
    assert (seen.reason, seen.message) == ("Disrupted", "its Pod was deleted")


def test_an_exit_42_is_permanent_even_while_the_pod_is_being_evicted() -> None:
    pod = live_pod(terminated(42), DISRUPTED)
    assert see(live_job("client", ("Failed", "PodFailurePolicy")), pod).exit_code == 42


def test_an_answer_given_while_being_evicted_counts() -> None:
    assert see(live_job(), live_pod(terminated(0, REPORT), DISRUPTED)).state == "succeeded"


HOSTILE_LOGS = [
    pytest.param("[" * 4000, id="lists in lists"),
    pytest.param('{"a":' * 700, id="objects in objects"),
    pytest.param(
        '{"event":"stopped","message":' + "[" * 900 + "]" * 900 + "}", id="a deep message"
    ),
    pytest.param('{"event":"stopped","message":{"a":[1]}}', id="a message that is no text"),
    pytest.param('{"event":"stopped","message":' + "9" * 3000 + "}", id="a number of 3,000 digits"),
    pytest.param("12:00:00 error stopped - \ud800\udfff", id="halves of characters"),
    pytest.param("stopped - \x00\x1b[2J\u202e", id="control characters"),
    pytest.param("\ud800" * 100, id="no text at all"),
]


@pytest.mark.attack(
    by="a Pod, a world or an endpoint",
    does="leaves 4,000 `[` or half a character as a Pod's last words",
    result="shown or left out; the operator's pass continues",
)
@pytest.mark.parametrize("code", [0, 1, 42, 43, 137])
@pytest.mark.parametrize("message", HOSTILE_LOGS)
def test_no_last_words_of_a_pod_end_a_pass(message: str, code: int) -> None:
    held = ("Complete", "") if code == 0 else FAILED
    seen = see(live_job("client", held), live_pod(terminated(code, message), phase="Failed"))
    assert seen.state == ("succeeded" if code == 0 else "failed")
    assert seen.report is None
    assert is_tame(seen.message)
    assert "[[[" not in seen.message


@given(st.text(st.characters(exclude_categories=()), max_size=300), st.sampled_from([0, 1, 42]))
def test_any_last_words_of_a_pod_are_shown_or_left_out(message: str, code: int) -> None:
    held = ("Complete", "") if code == 0 else FAILED
    for words in (message, f"stopped - {message}", json.dumps({"event": "stopped", "x": message})):
        seen = see(live_job("client", held), live_pod(terminated(code, words), phase="Failed"))
        assert is_tame(seen.message)


@pytest.mark.parametrize("code", [42, 43])
def test_a_sentence_of_ours_is_taken_from_either_form_of_log(code: int) -> None:
    said = json.dumps({"event": "stopped", "message": "no such world", "hint": "try maze"})
    seen = see(live_job("client", FAILED), live_pod(terminated(code, f"[[[\n{said}\n")))
    assert seen.message == "no such world (hint: try maze)"
