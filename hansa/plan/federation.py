"""The state machine of a federation: from spec, status and observed Jobs to the next plan.

`plan()` has no I/O, no clock and no randomness; executors carry its plans out and call it again.
A round goes: open -> clients answer -> members are frozen -> aggregator commits -> close.
"""

from collections.abc import Sequence
from datetime import datetime

from hansa.api.assignment import AggregatorReport
from hansa.api.bucket_documents import Member
from hansa.api.constants import ANNOTATION_RETRY, CONCLUDED, Reason
from hansa.api.immutable_fields import (
    OPTIONS,
    compute_option_digests,
    immutable_changes,
    immutable_fields,
    list_changed_options,
)
from hansa.api.jobs import ObservedJob, Plan
from hansa.api.status import CurrentRound, FailedRound, Federation, FederationStatus, HistoryEntry
from hansa.core.exits import Exit, get_facts
from hansa.core.text import count
from hansa.plan import attempts, remote_silos, secure_retry
from hansa.plan.builder import Draft
from hansa.plan.policy import advice, apart, deadline, guard, masks, orders, presence, quorum
from hansa.plan.rollback import roll_back
from hansa.plan.round_opening import build_current_round
from hansa.plan.summary import (
    build_adapter_status,
    forget_personal,
    keep_adapter,
    record_overruled,
    record_own,
    record_regression,
    record_round,
)


def plan(federation: Federation, observed: Sequence[ObservedJob], now: datetime) -> Plan:
    """The next plan; calling it again in an unchanged world changes nothing."""
    draft = Draft(federation, observed, now)
    refusals = immutable_changes(federation.status.accepted, federation.spec)
    if refusals:
        update = {"observed_generation": federation.metadata.generation}
        return draft.finish(federation.status.model_copy(update=update), refusals=refusals)
    status, broken = remote_silos.receive(draft, roll_back(draft, _accept_spec(draft)))
    if broken and orders.is_closing(federation.spec, status):
        status = remote_silos.give_up(federation.spec, status)
    if federation.spec.suspend:
        if status.phase != "Suspended" and not orders.is_closing(federation.spec, status):
            draft.tell("Suspended", "suspended; nothing is lost")
        return draft.finish(remote_silos.send(draft, status))
    if status.phase == "Suspended":
        draft.tell("Resumed", "resumed")
        status = attempts.restart_clocks(status, now)
    status = _clear_failure(draft, status)
    if broken and not status.failed:
        status = _fail_exchange(draft, status, broken)
    if not status.failed:
        status = _advance(draft, status)
    return draft.finish(remote_silos.send(draft, status))


def _advance(draft: Draft, status: FederationStatus) -> FederationStatus:
    """The next step of the open round, or the next round."""
    if status.current is None:
        return _open_next(draft, status)
    if status.current.kind == "evaluate":
        return _evaluate(draft, status, status.current)
    if status.current.members is None:
        return _collect_answers(draft, status, status.current)
    return _aggregate(draft, status, status.current)


def _accept_spec(draft: Draft) -> FederationStatus:
    """Remember what later specs are compared with; an event names changed options of a world."""
    spec, status = draft.federation.spec, draft.federation.status
    for name in list_changed_options(spec, status.accepted):
        why = f"{name}: the options of its world changed, which counts from the next round on"
        draft.tell("SettingsChanged", why, warning=True)
    if status.observed_generation != draft.federation.metadata.generation:
        for reason, warning in advice.warnings(spec):
            draft.tell(reason, warning, warning=True)
    accepted = immutable_fields(spec, status.accepted)
    accepted[OPTIONS] = compute_option_digests(spec, status.accepted)
    generation = draft.federation.metadata.generation
    return status.model_copy(update={"accepted": accepted, "observed_generation": generation})


def _clear_failure(draft: Draft, status: FederationStatus) -> FederationStatus:
    """Forget a failed round once the spec has changed or somebody asked for a retry."""
    failed, metadata = status.failed, draft.federation.metadata
    if failed is None:
        return status
    asked = metadata.annotations.get(ANNOTATION_RETRY, "") != failed.retry
    if metadata.generation == failed.generation and not asked:
        return status
    draft.tell("Resumed", f"resumed after the failed round {failed.round}")
    return status.model_copy(update={"failed": None})


def _open_next(draft: Draft, status: FederationStatus) -> FederationStatus:
    """Open the next round, the evaluation after the last one, or nothing when all is done."""
    spec = draft.federation.spec
    if status.completed < spec.rounds:
        return status if presence.explain_wait(spec, status) else _open_round(draft, status)
    newest = apart.find_newest_round(status, spec.aggregation.strategy)
    if status.evaluated < newest:
        current = build_current_round(draft, status, "evaluate", newest)
        draft.wake(draft.now)
        return forget_personal(status).model_copy(update={"current": current})
    return status


def _open_round(draft: Draft, status: FederationStatus) -> FederationStatus:
    round_ = status.round + 1
    current = build_current_round(draft, status, "round", round_)
    history = status.history or [HistoryEntry(round=0, outcome="base")]
    who = count(len(current.environments), "environment")
    draft.tell("RoundOpened", f"round {round_} opened for {who}")
    draft.wake(draft.now)
    return status.model_copy(update={"round": round_, "current": current, "history": history})


def _collect_answers(
    draft: Draft, status: FederationStatus, current: CurrentRound
) -> FederationStatus:
    """Advance every client of the round, then decide whether it can be aggregated."""
    status, current = attempts.advance_all(draft, status, current)
    if not current.environments:
        return _abandon(draft, status, current)
    states = [e.state for e in current.environments]
    updated, empty = masks.count_answers(current)
    end = deadline.compute_end(current.started_at, current.participation.round_timeout_seconds)
    minimum = quorum.compute_minimum(current)
    timed_out = deadline.is_over(end, draft.now)
    decision = quorum.decide(
        updated=updated,
        empty=empty,
        pending=sum(state not in CONCLUDED for state in states),
        minimum=minimum,
        timed_out=timed_out,
    )
    is_awaited = (
        decision == "fail" and not timed_out and guard.must_await_start(current, status.history)
    )
    if decision == "wait" or is_awaited:
        draft.wake(end)
        return status.model_copy(update={"current": current})
    current = attempts.exclude_late(current, timed_out)
    fall = guard.judge_unevaluated(current, status.history)
    if decision != "fail" and fall is None:
        status, fall = _judge_start_adapter(draft, status, current)
    if fall:
        return _roll_back(draft, status, current, fall)
    if decision == "aggregate" and current.settings.aggregation.strategy == apart.NONE:
        return _close_apart(draft, status, current)
    if decision == "aggregate":
        return _freeze_members(draft, status, current)
    if decision == "empty":
        return _close_empty(draft, status, current)
    doubted = guard.is_unevaluated(status.history, current.start.round)
    why = quorum.explain_failure(current, doubted=doubted)
    return _fail(draft, status, current, "TooFewUpdates", why)


def _judge_start_adapter(
    draft: Draft, status: FederationStatus, current: CurrentRound
) -> tuple[FederationStatus, guard.Regression | None]:
    """Judge the start adapter of the round by its evaluations, and note an overruled veto."""
    fall, overruled = guard.judge_start_adapter(current, status)
    if overruled:
        draft.tell("VetoOverruled", overruled, warning=True)
    return record_overruled(status, overruled), fall


def _freeze_members(
    draft: Draft, status: FederationStatus, current: CurrentRound
) -> FederationStatus:
    """Fix the members in the status before the aggregator exists: later updates are ignored."""
    members = [
        Member(environment=e.name, manifest=e.manifest)
        for e in current.environments
        if e.state == "Updated"
    ]
    draft.tell("MembersFrozen", f"round {current.round} aggregates {count(len(members), 'update')}")
    draft.wake(draft.now)
    frozen = current.model_copy(update={"members": members, "frozen_at": draft.now})
    return status.model_copy(update={"current": frozen})


def _aggregate(draft: Draft, status: FederationStatus, current: CurrentRound) -> FederationStatus:
    """Advance the aggregator; close the round when it has committed."""
    job = draft.want(current, current.aggregator, "")
    end = deadline.compute_end(current.frozen_at, current.participation.round_timeout_seconds)
    if job and attempts.is_lost(draft, current, job):
        update = attempts.schedule_retry(draft, current.aggregator, counted=False)
        draft.tell("JobRetried", f"aggregator: {job.message}", warning=True)
    elif job is None or job.is_active:
        waiting = attempts.set_blocked(current.aggregator, job)
        if deadline.is_over(end, draft.now):
            what = f"the aggregator did not finish in time: {waiting.blocked}".removesuffix(": ")
            why = f"round {current.round}: {what}"
            return _fail(draft, status, current, "AggregationFailed", why)
        draft.wake(end)
        waits = current.model_copy(update={"aggregator": waiting})
        return status.model_copy(update={"current": waits})
    elif job.state == "succeeded":
        report = job.report
        if isinstance(report, AggregatorReport) and report.is_about(
            current.round, len(current.environments)
        ):
            return _close(draft, status, current, report)
        update = attempts.schedule_retry(draft, current.aggregator, counted=False)
    elif job.exit_code == Exit.MASK_AGAIN:
        masked = secure_retry.mask_again(draft, current, job.report)
        if isinstance(masked, CurrentRound):
            return status.model_copy(update={"current": masked})
        return _fail(draft, status, current, "AggregationFailed", masked)
    else:
        verdict = attempts.judge_failure(current, current.aggregator, job)
        if not verdict.again:
            cause = job.message or get_facts(job.exit_code).help
            why = f"aggregator: {cause}. Round {current.round} failed"
            if isinstance(job.report, AggregatorReport):  # it has written the audit log
                status = status.model_copy(update={"audit": job.report.audit_head or status.audit})
            return _fail(draft, status, current, "AggregationFailed", why)
        update = attempts.schedule_retry(draft, current.aggregator, counted=verdict.counted)
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
    updates = count(len(report.members), "update")
    is_fitted = current.settings.aggregation.server_step == "auto" and report.server_step
    by_step = f" with server step {report.server_step:.3g}" if is_fitted else ""
    draft.tell("RoundAggregated", f"round {current.round} aggregated {updates}{by_step}")
    draft.wake(draft.now)
    status = record_round(status, current, draft.now, report)
    adapter = build_adapter_status(draft.federation, current.round, report.adapter)
    audit = report.audit_head or status.audit
    return status.model_copy(update={"adapter": adapter, "audit": audit})


def _close_apart(draft: Draft, status: FederationStatus, current: CurrentRound) -> FederationStatus:
    """Nothing is shared: each environment's update is its own next start."""
    draft.tell("RoundApart", f"round {current.round}: each environment keeps its own adapter")
    draft.wake(draft.now)
    status = record_round(status, current, draft.now, None, outcome="apart")
    return record_own(status, draft.federation, current)


def _close_empty(draft: Draft, status: FederationStatus, current: CurrentRound) -> FederationStatus:
    """Nobody had anything to learn from: the round counts, and the adapter stays as it was."""
    draft.tell("RoundEmpty", f"round {current.round}: {masks.explain_empty(current)}", warning=True)
    draft.wake(draft.now)
    return record_round(status, current, draft.now, None)


def _roll_back(
    draft: Draft, status: FederationStatus, current: CurrentRound, fall: guard.Regression
) -> FederationStatus:
    """The start adapter is worse than the best: the updates trained from it are not merged.

    The round counts, so that a federation ends; its experience stays, and so do its updates.
    """
    status = record_round(
        status, current, draft.now, None, outcome="rolled-back", message=fall.message
    )
    status = record_regression(status, draft.federation, fall)
    step = draft.federation.spec.aggregation.server_step
    factor = status.step_factor
    smaller = f"auto x {factor:g}" if isinstance(step, str) else f"{step * factor:g}"
    why = (
        f"round {current.round}: {fall.message}; continues from round {fall.best.round} "
        f"with server step {smaller}"
    )
    draft.tell("RolledBack", why, warning=True)
    draft.wake(draft.now)
    if current.guard and current.guard.action == "pause":
        why = f"{why}, when asked: change the spec or run `hansa retry`"
        return _wait_for_retry(draft, status, current.round, "GuardTripped", why)
    return status


def _abandon(draft: Draft, status: FederationStatus, current: CurrentRound) -> FederationStatus:
    """All environments of the round have left the spec: it does not count, the next one opens."""
    why = f"round {current.round}: all its environments were removed from the spec"
    draft.tell("RoundFailed", why, warning=True)
    draft.wake(draft.now)
    return record_round(status, current, draft.now, None, outcome="failed")


def _fail(
    draft: Draft, status: FederationStatus, current: CurrentRound, reason: Reason, why: str
) -> FederationStatus:
    """Close the round without an adapter and wait for a person; its number is not reused."""
    draft.tell("RoundFailed", why, warning=True)
    status = record_round(status, current, draft.now, None, outcome="failed")
    return _wait_for_retry(draft, status, current.round, reason, why)


def _fail_exchange(draft: Draft, status: FederationStatus, why: str) -> FederationStatus:
    """Letters can neither be posted nor read, and a retry would not help."""
    if status.current:
        return _fail(draft, status, status.current, "ExchangeFailed", why)
    draft.tell("RoundFailed", why, warning=True)
    return _wait_for_retry(draft, status, status.round, "ExchangeFailed", why)


def _wait_for_retry(
    draft: Draft, status: FederationStatus, round_: int, reason: Reason, why: str
) -> FederationStatus:
    metadata = draft.federation.metadata
    failed = FailedRound(
        round=round_,
        generation=metadata.generation,
        retry=metadata.annotations.get(ANNOTATION_RETRY, ""),
        reason=reason,
        message=why,
    )
    return status.model_copy(update={"failed": failed})


def _evaluate(draft: Draft, status: FederationStatus, current: CurrentRound) -> FederationStatus:
    """Measure the last adapter; an environment that cannot is left out, and says so."""
    status, current = attempts.advance_all(draft, status, current)
    end = deadline.compute_end(current.started_at, current.participation.round_timeout_seconds)
    if deadline.is_over(end, draft.now):
        current = attempts.exclude_late(current, True)
    if any(e.state not in CONCLUDED for e in current.environments):
        draft.wake(end)
        return status.model_copy(update={"current": current})
    draft.tell("Evaluated", f"the adapter of round {current.round} was evaluated")
    draft.wake(draft.now)
    status = record_round(status, current, draft.now, None, only_states=True)
    status = status.model_copy(update={"current": None, "evaluated": current.round})
    return _keep_best(draft, status, current)


def _keep_best(draft: Draft, status: FederationStatus, current: CurrentRound) -> FederationStatus:
    """Under a guard the last adapter is judged, too, and the best one is kept."""
    status, fall = _judge_start_adapter(draft, status, current)
    fall = fall or guard.judge_unevaluated(current, status.history)
    if fall:
        draft.tell("RolledBack", f"{fall.message}; that adapter is not kept", warning=True)
        return record_regression(status, draft.federation, fall)
    best = guard.find_best_adapter(current.guard, status.history, current.round)
    if best is None or best.round == current.round:
        return status
    draft.tell("BestKept", f"the adapter of round {best.round} is kept: it did best of all")
    return keep_adapter(status, draft.federation, best)
