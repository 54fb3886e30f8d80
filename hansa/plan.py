"""The state machine: what to do next, from what is wanted, what is known and what is seen.

`plan()` has no I/O, no clock and no randomness; executors carry its plans out and call it again.
A round goes: open -> clients answer -> members are frozen -> aggregator commits -> close.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal

from hansa.api import ANNOTATION_RETRY, Reason
from hansa.assignment import AggregatorReport, ClientReport, EvaluateReport
from hansa.draft import Draft
from hansa.exits import facts
from hansa.jobs import ObservedJob, Plan
from hansa.manifest import Member, StartAdapter
from hansa.policy import apart, deadline, quorum, retry
from hansa.policy.quorum import ANSWERED
from hansa.spec import immutable_changes, immutable_fields
from hansa.status import (
    Attempts,
    CurrentRound,
    FailedRound,
    Federation,
    FederationStatus,
    HistoryEntry,
    RoundEnvironment,
    RoundSettings,
)
from hansa.summary import (
    adapter_uri,
    record_answer,
    record_evaluation,
    record_own,
    record_round,
)

Kind = Literal["round", "evaluate"]
CONCLUDED = frozenset({"Updated", "Empty", "Failed"})


def plan(federation: Federation, observed: Sequence[ObservedJob], now: datetime) -> Plan:
    """The next plan; calling it again in an unchanged world changes nothing."""
    draft = Draft(federation, observed, now)
    refusals = immutable_changes(federation.status.accepted, federation.spec)
    if refusals:
        return draft.finish(federation.status, refusals=refusals)
    status = _accept(federation)
    if federation.spec.suspend:
        draft.tell_once(status.phase != "Suspended", "Suspended", "suspended; nothing is lost")
        return draft.finish(status, wanted=False)
    draft.tell_once(status.phase == "Suspended", "Resumed", "goes on where it stood")
    status = _resume(draft, status)
    if status.failed:
        return draft.finish(status)
    if status.current is None:
        return draft.finish(_open(draft, status))
    if status.current.kind == "evaluate":
        return draft.finish(_evaluate(draft, status, status.current))
    if status.current.members is None:
        return draft.finish(_gather(draft, status, status.current))
    return draft.finish(_aggregate(draft, status, status.current))


def _accept(federation: Federation) -> FederationStatus:
    status = federation.status
    accepted = immutable_fields(federation.spec, status.accepted)
    generation = federation.metadata.generation
    return status.model_copy(update={"accepted": accepted, "observed_generation": generation})


def _resume(draft: Draft, status: FederationStatus) -> FederationStatus:
    """Forget a failed round once the spec has changed or somebody asked for a retry."""
    failed, metadata = status.failed, draft.federation.metadata
    if failed is None:
        return status
    asked = metadata.annotations.get(ANNOTATION_RETRY, "") != failed.retry
    if metadata.generation == failed.generation and not asked:
        return status
    draft.tell("Resumed", f"goes on after the failed round {failed.round}")
    return status.model_copy(update={"failed": None})


def _open(draft: Draft, status: FederationStatus) -> FederationStatus:
    """Open the next round, the evaluation after the last one, or nothing when all is done."""
    spec = draft.federation.spec
    if status.completed < spec.rounds:
        return _open_round(draft, status)
    newest = apart.newest(status, spec.aggregation.strategy)
    if status.evaluated < newest:
        current = _new_current(draft, status, "evaluate", newest)
        draft.wake(draft.now)
        return status.model_copy(update={"current": current})
    return status


def _open_round(draft: Draft, status: FederationStatus) -> FederationStatus:
    round_ = status.round + 1
    current = _new_current(draft, status, "round", round_)
    history = status.history or [HistoryEntry(round=0, outcome="base")]
    count = len(current.environments)
    draft.tell("RoundOpened", f"round {round_} opened for {count} environments")
    draft.wake(draft.now)
    return status.model_copy(update={"round": round_, "current": current, "history": history})


def _new_current(draft: Draft, status: FederationStatus, kind: Kind, round_: int) -> CurrentRound:
    spec = draft.federation.spec
    start = StartAdapter()
    if status.adapter:
        start = StartAdapter(round=status.adapter.round, sha256=status.adapter.sha256)
    return CurrentRound(
        kind=kind,
        round=round_,
        opened_at=draft.now,
        start=start,
        settings=RoundSettings.of(spec),
        participation=spec.participation,
        environments=[
            RoundEnvironment(
                name=e.name,
                world=e.world,
                options=e.options,
                start=apart.own_start(status, spec.aggregation.strategy, e.name),
            )
            for e in sorted(spec.environments, key=lambda e: e.name)
        ],
    )


def _gather(draft: Draft, status: FederationStatus, current: CurrentRound) -> FederationStatus:
    """Bring every client of the round forward, then see whether the round can be aggregated."""
    status, current = _step_all(draft, status, current)
    if not current.environments:
        return _abandon(draft, status, current)
    states = [e.state for e in current.environments]
    end = deadline.ends_at(current.started_at, current.participation.round_timeout_seconds)
    minimum = current.participation.minimum_updates or len(states)
    timed_out = deadline.is_over(end, draft.now)
    decision = quorum.decide(
        updated=states.count("Updated"),
        empty=states.count("Empty"),
        pending=sum(state not in CONCLUDED for state in states),
        minimum=min(minimum, len(states)),
        timed_out=timed_out,
    )
    if decision == "wait":
        draft.wake(end)
        return status.model_copy(update={"current": current})
    current = _leave_out_the_late(current, timed_out)
    if decision == "aggregate" and current.settings.aggregation.strategy == apart.NONE:
        return _close_apart(draft, status, current)
    if decision == "aggregate":
        return _freeze(draft, status, current)
    if decision == "empty":
        return _close_empty(draft, status, current)
    return _fail(draft, status, current, "TooFewUpdates", quorum.too_few(current, minimum))


def _step_all(
    draft: Draft, status: FederationStatus, current: CurrentRound
) -> tuple[FederationStatus, CurrentRound]:
    """Every environment of the round one step forward; those that left the spec are dropped."""
    names_ = {e.name for e in draft.federation.spec.environments}
    present = [e for e in current.environments if e.name in names_]
    stepped = []
    for environment in present:
        if environment.state in CONCLUDED:
            stepped.append(environment)
            continue
        job = draft.want(current, environment, environment.name)
        if job and job.started_at:
            first = deadline.earliest(current.started_at, job.started_at)
            current = current.model_copy(update={"started_at": first})
        environment = _step(draft, current, environment, job)
        if job and job.report and environment.state in ANSWERED:
            status = _record(status, environment, job)
        stepped.append(environment)
    return status, current.model_copy(update={"environments": stepped})


def _record(
    status: FederationStatus, environment: RoundEnvironment, job: ObservedJob
) -> FederationStatus:
    report = job.report
    if isinstance(report, ClientReport):
        status = record_answer(status, environment.name, report)
    if isinstance(report, AggregatorReport) or not report or not report.evaluation:
        return status
    return record_evaluation(status, environment.name, report.evaluation)


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
    """A finished Job's answer; a lost report is fetched by running the Job again."""
    report = job.report
    if current.kind == "evaluate" and isinstance(report, EvaluateReport):
        return environment.model_copy(update={"state": "Updated", "message": ""})
    if isinstance(report, ClientReport) and report.round == current.round:
        state = "Updated" if report.trained else "Empty"
        done = {"state": state, "manifest": report.manifest, "message": ""}
        return environment.model_copy(update={**done, "adapter": report.adapter})
    lost = _next_attempt(draft, environment, counted=False)
    return environment.model_copy(update={**lost, "state": "Retrying", "message": "report lost"})


def _failed(
    draft: Draft,
    current: CurrentRound,
    environment: RoundEnvironment,
    job: ObservedJob,
    why: str,
) -> RoundEnvironment:
    """A failed attempt: the next one, or out of this round."""
    verdict = _verdict(current, environment, job)
    if verdict.again:
        draft.tell("JobRetried", f"{environment.name}: {why}", warning=True)
        update = _next_attempt(draft, environment, counted=verdict.counted)
        return environment.model_copy(update={**update, "state": "Retrying", "message": why})
    draft.tell("JobFailed", f"{environment.name} is left out: {why}", warning=True)
    failures = environment.failures + 1
    return environment.model_copy(update={"state": "Failed", "failures": failures, "message": why})


def _verdict(current: CurrentRound, attempts: Attempts, job: ObservedJob) -> retry.Verdict:
    return retry.after_failure(
        exit_code=job.exit_code,
        disrupted=job.reason == "Disrupted",
        cannot_start=job.reason == "CannotStart",
        failures=attempts.failures,
        retries=current.participation.retries,
    )


def _next_attempt(draft: Draft, attempts: Attempts, *, counted: bool) -> dict[str, object]:
    pause = timedelta(seconds=retry.delay_seconds(attempts.attempt))
    draft.wake(draft.now + pause)
    return {
        "attempt": attempts.attempt + 1,
        "failures": attempts.failures + counted,
        "not_before": draft.now + pause,
    }


def _leave_out_the_late(current: CurrentRound, timed_out: bool) -> CurrentRound:
    """Who has not answered when the round is decided is left out of it, and back in the next."""
    late = f"did not answer within {current.participation.round_timeout_seconds} s"
    late = late if timed_out else "was not waited for: the round could not reach its minimum"
    return current.model_copy(
        update={
            "environments": [
                e
                if e.state in CONCLUDED
                else e.model_copy(update={"state": "Failed", "message": e.message or late})
                for e in current.environments
            ]
        }
    )


def _freeze(draft: Draft, status: FederationStatus, current: CurrentRound) -> FederationStatus:
    """Fix the members in the status before the aggregator exists: later updates are ignored."""
    members = [
        Member(environment=e.name, manifest=e.manifest)
        for e in current.environments
        if e.state == "Updated"
    ]
    draft.tell("MembersFrozen", f"round {current.round} aggregates {len(members)} updates")
    draft.wake(draft.now)
    frozen = current.model_copy(update={"members": members, "frozen_at": draft.now})
    return status.model_copy(update={"current": frozen})


def _aggregate(draft: Draft, status: FederationStatus, current: CurrentRound) -> FederationStatus:
    """Bring the aggregator forward; close the round when it has committed."""
    job = draft.want(current, current.aggregator, "")
    end = deadline.ends_at(current.frozen_at, current.participation.round_timeout_seconds)
    if job is None or job.is_active:
        if deadline.is_over(end, draft.now):
            why = f"round {current.round}: the aggregator did not finish in time"
            return _fail(draft, status, current, "AggregationFailed", why)
        draft.wake(end)
        return status
    if job.state == "succeeded":
        report = job.report
        if isinstance(report, AggregatorReport) and report.speaks_of(
            current.round, len(current.environments)
        ):
            return _close(draft, status, current, report)
        update = _next_attempt(draft, current.aggregator, counted=False)
    else:
        verdict = _verdict(current, current.aggregator, job)
        if not verdict.again:
            why = f"round {current.round}: {job.message or facts(job.exit_code).help}"
            return _fail(draft, status, current, "AggregationFailed", why)
        update = _next_attempt(draft, current.aggregator, counted=verdict.counted)
        draft.tell("JobRetried", f"aggregator: {job.message}", warning=True)
    again = current.aggregator.model_copy(update=update)
    return status.model_copy(update={"current": current.model_copy(update={"aggregator": again})})


def _close(
    draft: Draft, status: FederationStatus, current: CurrentRound, report: AggregatorReport
) -> FederationStatus:
    """The round is done: its adapter is the start of the next."""
    for index, reason in report.refused:
        name = current.environments[index].name
        draft.tell("UpdateRefused", f"{name}: {reason}", warning=True)
    draft.tell("RoundAggregated", f"round {current.round} aggregated {len(report.members)} updates")
    draft.wake(draft.now)
    status = record_round(status, current, draft.now, report)
    adapter = adapter_uri(draft.federation, current.round, report.adapter)
    update = {"adapter": adapter, "current": None, "completed": status.completed + 1}
    return status.model_copy(update=update)


def _close_apart(draft: Draft, status: FederationStatus, current: CurrentRound) -> FederationStatus:
    """Nothing is shared: each environment's update is its own next start."""
    draft.tell("RoundApart", f"round {current.round}: each environment keeps its own adapter")
    draft.wake(draft.now)
    status = record_round(status, current, draft.now, None, outcome="apart")
    status = record_own(status, draft.federation, current)
    return status.model_copy(update={"current": None, "completed": status.completed + 1})


def _close_empty(draft: Draft, status: FederationStatus, current: CurrentRound) -> FederationStatus:
    """Nobody had anything to learn from: the round counts, and the adapter stays as it was."""
    draft.tell("RoundEmpty", f"round {current.round}: no successful trajectory yet", warning=True)
    draft.wake(draft.now)
    status = record_round(status, current, draft.now, None)
    return status.model_copy(update={"current": None, "completed": status.completed + 1})


def _abandon(draft: Draft, status: FederationStatus, current: CurrentRound) -> FederationStatus:
    """All environments of the round have left the spec: it does not count, the next one opens."""
    why = f"round {current.round}: all its environments were removed from the spec"
    draft.tell("RoundFailed", why, warning=True)
    draft.wake(draft.now)
    status = record_round(status, current, draft.now, None, outcome="failed")
    return status.model_copy(update={"current": None})


def _fail(
    draft: Draft, status: FederationStatus, current: CurrentRound, reason: Reason, why: str
) -> FederationStatus:
    """Close the round without an adapter and wait for a person; its number is never used again."""
    draft.tell("RoundFailed", why, warning=True)
    metadata = draft.federation.metadata
    failed = FailedRound(
        round=current.round,
        generation=metadata.generation,
        retry=metadata.annotations.get(ANNOTATION_RETRY, ""),
        reason=reason,
        message=why,
    )
    status = record_round(status, current, draft.now, None, outcome="failed")
    return status.model_copy(update={"current": None, "failed": failed})


def _evaluate(draft: Draft, status: FederationStatus, current: CurrentRound) -> FederationStatus:
    """Measure the last adapter; an environment that cannot is left out, and says so."""
    status, current = _step_all(draft, status, current)
    end = deadline.ends_at(current.started_at, current.participation.round_timeout_seconds)
    if deadline.is_over(end, draft.now):
        current = _leave_out_the_late(current, True)
    if any(e.state not in CONCLUDED for e in current.environments):
        draft.wake(end)
        return status.model_copy(update={"current": current})
    draft.tell("Evaluated", f"the adapter of round {current.round} was evaluated")
    draft.wake(draft.now)
    update = {"current": None, "evaluated": current.round}
    return record_round(status, current, draft.now, None, only_states=True).model_copy(
        update=update
    )
