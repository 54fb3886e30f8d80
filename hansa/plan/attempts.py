"""One party's way through a round: to its answer, to its next attempt, or out of the round.

A part of `plan()`, and as pure: no I/O, no clock, no randomness.
"""

from datetime import datetime, timedelta
from typing import TypeVar

from hansa.api.assignment import ClientReport, EvaluateReport
from hansa.api.constants import ANSWERED, CONCLUDED
from hansa.api.jobs import ObservedJob
from hansa.api.status import Attempts, CurrentRound, FederationStatus, RoundEnvironment
from hansa.core.exits import facts
from hansa.plan import remote_silos
from hansa.plan.builder import Draft
from hansa.plan.job_requests import for_environment
from hansa.plan.policy import deadline, drift, retry
from hansa.plan.summary import record_answer, record_evaluation, record_personal


def step_all(
    draft: Draft, status: FederationStatus, current: CurrentRound
) -> tuple[FederationStatus, CurrentRound]:
    """Every environment of the round one step forward; those that left the spec are dropped."""
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
            first = deadline.earliest(current.started_at, job.started_at)
            current = current.model_copy(update={"started_at": first})
        environment = with_block(_step(draft, current, environment, job), job)
        if job and job.report and environment.state in ANSWERED:
            status = _record(status, environment, job)
        if environment.remote and environment.state == "Failed":
            status = remote_silos.note_absence(draft, status, environment)
        stepped.append(environment)
    return status, current.model_copy(update={"environments": stepped})


_OF = TypeVar("_OF", bound=Attempts)


def with_block(of: _OF, job: ObservedJob | None) -> _OF:
    """The party with what only a person can change about its Job that waits to start."""
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


def _step(
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
        end = deadline.ends_at(job.created_at, patience)
        if deadline.is_over(end, draft.now):
            reason = f"did not start within {patience} s: {job.message or 'no reason was given'}"
            return _failed(draft, current, environment, job, reason)
        draft.wake(end)
        return environment.model_copy(update={"state": "Starting", "message": job.message})
    if job.state == "running":
        return environment.model_copy(update={"state": "Running", "message": ""})
    if job.state == "succeeded":
        return _answered(draft, current, environment, job)
    reason = job.message or facts(job.exit_code).help
    return _failed(draft, current, environment, job, reason)


def _answered(
    draft: Draft, current: CurrentRound, environment: RoundEnvironment, job: ObservedJob
) -> RoundEnvironment:
    """A finished Job's answer; a lost report is fetched by running the Job again.

    One that speaks of another Job's work is as good as lost.
    """
    report = job.report
    assignment = for_environment(draft.federation, current, environment.name)
    if isinstance(report, EvaluateReport) and report.answers(assignment):
        return environment.model_copy(update={"state": "Updated", "message": ""})
    if isinstance(report, ClientReport) and report.answers(assignment):
        state = "Updated" if report.trained else "Empty"
        done = {"state": state, "manifest": report.manifest, "message": ""}
        own = report.own.ratio if report.own else environment.own  # known, where it masks again
        return environment.model_copy(update={**done, "adapter": report.adapter, "own": own})
    lost = next_attempt(draft, environment, counted=False)
    return environment.model_copy(update={**lost, "state": "Retrying", "message": "report lost"})


def _failed(
    draft: Draft,
    current: CurrentRound,
    environment: RoundEnvironment,
    job: ObservedJob,
    why: str,
) -> RoundEnvironment:
    """A failed attempt: the next one, or out of this round."""
    decided = verdict(current, environment, job)
    if decided.again:
        draft.tell("JobRetried", f"{environment.name}: {why}", warning=True)
        update = next_attempt(draft, environment, counted=decided.counted)
        return environment.model_copy(update={**update, "state": "Retrying", "message": why})
    draft.tell("JobFailed", f"{environment.name} is left out: {why}", warning=True)
    lost = {"state": "Failed", "failures": environment.failures + 1, "message": why}
    code = None if job.reason else job.exit_code
    return environment.model_copy(update={**lost, "exit_code": code})


def verdict(current: CurrentRound, of: Attempts, job: ObservedJob) -> retry.RetryDecision:
    """Whether this party tries again after its failed Job."""
    return retry.after_failure(
        exit_code=job.exit_code,
        disrupted=job.reason == "Disrupted",
        cannot_start=job.reason == "CannotStart",
        failures=of.failures,
        retries=current.participation.retries,
    )


def next_attempt(draft: Draft, of: Attempts, *, counted: bool) -> dict[str, object]:
    """What changes in a party that tries again, after a pause that grows."""
    pause = timedelta(seconds=retry.delay_seconds(of.attempt))
    draft.wake(draft.now + pause)
    return {
        "attempt": of.attempt + 1,
        "failures": of.failures + counted,
        "not_before": draft.now + pause,
    }


def is_lost(draft: Draft, current: CurrentRound, job: ObservedJob) -> bool:
    """Whether a Job's node is gone and nothing has taken its place in the time that a start has."""
    if job.state != "starting" or job.reason != "Disrupted":
        return False
    end = deadline.ends_at(job.created_at, current.participation.start_timeout_seconds)
    draft.wake(end)
    return deadline.is_over(end, draft.now)


def with_fresh_clocks(status: FederationStatus, now: datetime) -> FederationStatus:
    """The status of a federation whose Jobs were stopped: they and their time begin anew."""
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


def leave_out_the_late(current: CurrentRound, timed_out: bool) -> CurrentRound:
    """Who has not answered when the round is decided is left out of it, and back in the next.

    Only who was late has failed: a round that cannot reach its minimum stops the others.
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
