"""One party's Jobs in a round: until it has answered, is retried, or has failed.

A part of `plan()`, and as pure: no I/O, no clock, no randomness.
"""

from datetime import datetime, timedelta
from typing import TypeVar

from hansa.api.assignment import ClientReport, EvaluateReport
from hansa.api.constants import ANSWERED, CONCLUDED
from hansa.api.jobs import ObservedJob
from hansa.api.status import Attempts, CurrentRound, FederationStatus, RoundEnvironment
from hansa.plan import remote_silos
from hansa.plan.builder import Draft
from hansa.plan.job_requests import build_client_assignment
from hansa.plan.policy import deadline, drift, retry
from hansa.plan.summary import record_answer, record_evaluation, record_personal


def advance_all(
    draft: Draft, status: FederationStatus, current: CurrentRound
) -> tuple[FederationStatus, CurrentRound]:
    """Advance every environment of the round; drop those that are no longer in the spec."""
    names_ = {e.name for e in draft.federation.spec.environments}
    present = [e for e in current.environments if e.name in names_]
    current = current.model_copy(update={"environments": present})
    stepped = []
    for environment in present:
        if environment.state in CONCLUDED:
            stepped.append(environment)
            continue
        if environment.remote:
            job: ObservedJob | None = remote_silos.observe(draft, status, current, environment)
        else:
            job = draft.want(current, environment, environment.name)
        if job and job.started_at:
            first = deadline.find_earliest(current.started_at, job.started_at)
            current = current.model_copy(update={"started_at": first})
        environment = set_blocked(_advance(draft, current, environment, job), job)
        if job and job.report and environment.state in ANSWERED:
            status = _record(status, environment, job)
        if environment.remote and environment.state == "Failed":
            status = remote_silos.note_absence(draft, status, environment)
        stepped.append(environment)
    return status, current.model_copy(update={"environments": stepped})


_OF = TypeVar("_OF", bound=Attempts)


def set_blocked(of: _OF, job: ObservedJob | None) -> _OF:
    """The party with the reason why its Job waits for a person, if it does."""
    waits = job and job.state == "starting" and job.reason == "ConsentMissing"
    return of.model_copy(update={"blocked": job.message if job and waits else ""})


def _record(
    status: FederationStatus, environment: RoundEnvironment, job: ObservedJob
) -> FederationStatus:
    report = job.report
    if isinstance(report, ClientReport):
        status = record_answer(status, environment.name, report)
    if isinstance(report, EvaluateReport):
        status = record_personal(status, environment.name, report)
    if not isinstance(report, ClientReport | EvaluateReport) or not report.evaluation:
        return status
    evaluation, of = report.evaluation, environment.name
    return drift.record(record_evaluation(status, of, evaluation), of, evaluation)


def _advance(
    draft: Draft, current: CurrentRound, environment: RoundEnvironment, job: ObservedJob | None
) -> RoundEnvironment:
    """One environment's next state, from what is seen of its present Job."""
    if job is None:
        waits = environment.not_before and draft.now < environment.not_before
        return environment.model_copy(update={"state": "Retrying" if waits else "Starting"})
    if job.state == "queued":
        return environment.model_copy(update={"state": "Queued", "message": job.message})
    if job.state == "starting":
        patience = current.participation.start_timeout_seconds
        end = deadline.compute_end(job.created_at, patience)
        if deadline.is_over(end, draft.now):
            reason = f"did not start within {patience} s: {job.message or 'no reason was given'}"
            return _handle_failure(draft, current, environment, job, reason)
        draft.wake(end)
        return environment.model_copy(update={"state": "Starting", "message": job.message})
    if job.state == "running":
        return environment.model_copy(update={"state": "Running", "message": ""})
    if job.state == "succeeded":
        return _handle_answer(draft, current, environment, job)
    return _handle_failure(draft, current, environment, job, retry.explain_failure(job))


def _handle_answer(
    draft: Draft, current: CurrentRound, environment: RoundEnvironment, job: ObservedJob
) -> RoundEnvironment:
    """A finished Job's answer; a lost report is fetched by running the Job again.

    A report about another assignment counts as lost.
    """
    report = job.report
    assignment = build_client_assignment(draft.federation, current, environment.name)
    if isinstance(report, EvaluateReport) and report.answers(assignment):
        return environment.model_copy(update={"state": "Updated", "message": ""})
    if isinstance(report, ClientReport) and report.answers(assignment):
        state = "Updated" if report.trained else "Empty"
        done = {"state": state, "manifest": report.manifest, "message": ""}
        own = report.own.ratio if report.own else environment.own  # a second masking reports none
        return environment.model_copy(update={**done, "adapter": report.adapter, "own": own})
    lost = schedule_retry(draft, environment, counted=False)
    return environment.model_copy(update={**lost, "state": "Retrying", "message": "report lost"})


def _handle_failure(
    draft: Draft,
    current: CurrentRound,
    environment: RoundEnvironment,
    job: ObservedJob,
    why: str,
) -> RoundEnvironment:
    """A failed attempt: retry it, or leave the environment out of this round."""
    decided = judge_failure(current, environment, job)
    if decided.again:
        draft.tell("JobRetried", f"{environment.name}: {why}", warning=True)
        update = schedule_retry(draft, environment, counted=decided.counted)
        return environment.model_copy(update={**update, "state": "Retrying", "message": why})
    draft.tell("JobFailed", f"{environment.name} is left out: {why}", warning=True)
    lost = {"state": "Failed", "failures": environment.failures + 1, "message": why}
    code = None if job.reason else job.exit_code
    return environment.model_copy(update={**lost, "exit_code": code})


def judge_failure(current: CurrentRound, of: Attempts, job: ObservedJob) -> retry.RetryDecision:
    """Whether this party tries again after its failed Job."""
    retries = current.participation.retries
    return retry.judge_failure(job, failures=of.failures, retries=retries)


def schedule_retry(draft: Draft, of: Attempts, *, counted: bool) -> dict[str, object]:
    """The changed fields of a party that is retried after a backoff."""
    pause = timedelta(seconds=retry.delay_seconds(of.attempt))
    draft.wake(draft.now + pause)
    return {
        "attempt": of.attempt + 1,
        "failures": of.failures + counted,
        "not_before": draft.now + pause,
    }


def is_lost(draft: Draft, current: CurrentRound, job: ObservedJob) -> bool:
    """Whether a Job was disrupted, and no new Pod started within the start timeout."""
    if job.state != "starting" or job.reason != "Disrupted":
        return False
    end = deadline.compute_end(job.created_at, current.participation.start_timeout_seconds)
    draft.wake(end)
    return deadline.is_over(end, draft.now)


def restart_clocks(status: FederationStatus, now: datetime) -> FederationStatus:
    """The status after a suspension: all timeouts start again with the new Jobs."""
    current = status.current
    if current is None:
        return status
    update = {
        "started_at": None,
        "frozen_at": now if current.frozen_at else None,
        "aggregator": current.aggregator.model_copy(update={"not_before": now}),
        "environments": [
            e if e.state in CONCLUDED else e.model_copy(update={"not_before": now})
            for e in current.environments
        ],
    }
    return status.model_copy(update={"current": current.model_copy(update=update)})


def exclude_late(current: CurrentRound, timed_out: bool) -> CurrentRound:
    """Leave environments without an answer out of this round; the next one includes them again.

    They have failed only after the timeout. A round that cannot reach its minimum stops them early.
    """
    late = f"did not answer within {current.participation.round_timeout_seconds} s"
    state = "Failed" if timed_out else "Waiting"
    why = late if timed_out else "was stopped: the round could not reach its minimum"
    return current.model_copy(
        update={
            "environments": [
                e
                if e.state in CONCLUDED
                else e.model_copy(update={"state": state, "message": e.message or why})
                for e in current.environments
            ]
        }
    )
