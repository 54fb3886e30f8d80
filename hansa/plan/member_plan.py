"""The state machine of a silo: from its spec, the newest order and its Jobs to the next plan.

Like `plan()` for a Federation it is pure: no I/O, no clock, no randomness. The newest order wins,
and no work is done that the owner's limits do not allow.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from hansa.api import job_names
from hansa.api.assignment import ClientReport, EvaluateReport
from hansa.api.jobs import JobRequest, ObservedJob
from hansa.api.letters import FAULTS
from hansa.api.member_status import (
    MOST_ROUNDS,
    FederationMember,
    Outcome,
    PendingLetter,
    SiloOrder,
    SiloRound,
    SiloStatus,
    SiloUsage,
)
from hansa.api.silo_assignment import SiloClientAssignment, SiloCourierAssignment, SiloReport
from hansa.core.exits import Exit
from hansa.plan import member_trouble as trouble
from hansa.plan.builder import MemberDraft, SiloPlan
from hansa.plan.member_windows import find_opening
from hansa.plan.policy import courier as couriers
from hansa.plan.policy import deadline, retry

GREET_SECONDS = 3600
"""A silo without letters greets this often, so that a coordinator that lost it finds it again."""

RESTS_POLLS = 20
"""After an error that only a person can fix, polls are this many times rarer."""
TWIN = (
    "the silo's log has letters that its status does not know: it was restored from an old copy, "
    "or another silo uses its key; continues after them"
)


def follow(silo: FederationMember, observed: Sequence[ObservedJob], now: datetime) -> SiloPlan:
    """The next plan; calling it again in an unchanged world changes nothing."""
    draft = MemberDraft(silo, observed, now)
    status = _apply_courier(draft, silo.status)
    if silo.spec.suspend:
        return draft.finish(status)
    if silo.spec.leave:
        return draft.finish(_leave(draft, status))
    if status.left:  # the owner rejoined
        owed = [letter for letter in status.owed if letter.kind != "leave"]
        anew = {"left": False, "owed": owed, "greeted_at": None, "heard_at": None}
        status = status.model_copy(update=anew)
    if status.trouble != "LogReplaced":  # the log of orders is gone: no order is carried out
        status = _advance_order(draft, status)
    return draft.finish(_send(draft, _greet(draft, status)))


# -- what the courier brought -----------------------------------------------------------------


def _apply_courier(draft: MemberDraft, status: SiloStatus) -> SiloStatus:
    courier = status.courier
    job = draft.find_courier_job(courier)
    if courier is None or job is None:
        return status
    if job.is_active:
        return status.model_copy(update={"courier": couriers.note_progress(courier, job)})
    if job.state == "succeeded" and isinstance(job.report, SiloReport):
        status = _apply_report(draft, status, job.report)
        well = {"courier": couriers.follow_success(courier), "message": "", "trouble": ""}
        return status.model_copy(update=well)
    rests = RESTS_POLLS * draft.silo.spec.poll_seconds
    failed = trouble.add_message(job)
    courier, again = couriers.follow_failure(courier, failed, draft.now, rests_seconds=rests)
    why = f"courier: {courier.message}"
    draft.tell("JobRetried", why, warning=True)
    update = {"courier": courier, "message": status.message if again else why}
    return status.model_copy(update={**update, "trouble": trouble.find_trouble(job)})


def _apply_report(draft: MemberDraft, status: SiloStatus, report: SiloReport) -> SiloStatus:
    for code, number in report.faults:
        why = FAULTS.get(code, code)  # type: ignore[call-overload]
        text = f"{number} in the log of orders: {why}"
        draft.tell("LetterRefused", text, warning=True)
    if report.ahead:
        draft.tell("Twin", TWIN, warning=True)
    update: dict[str, object] = {"owed": status.owed[report.posted :]}
    if report.sent:
        update["sent"] = report.sent
    if report.received:
        update |= {"received": report.received, "heard_at": draft.now}
    newest = report.newest
    if newest:
        update["current"] = SiloOrder(
            **{name: getattr(newest, name) for name in type(newest).model_fields},
            state="Resting" if newest.kind == "rest" else "New",
        )
        # Letters about an older order are obsolete.
        update["owed"] = [w for w in status.owed[report.posted :] if w.order is None]
    if newest and newest.why == "missed":
        update |= {"owed": [PendingLetter(kind="hello")], "greeted_at": draft.now}
    return status.model_copy(update=update)


# -- its own Job ------------------------------------------------------------------------------


def _advance_order(draft: MemberDraft, status: SiloStatus) -> SiloStatus:
    current = status.current
    if current is None:
        return status
    if current.state == "Working":
        return _advance_job(draft, status, current)
    if current.state in ("New", "Waiting"):
        status = _take_order(draft, status, current)
        if status.current and status.current.state == "Working":
            draft.wake(draft.now)  # stored before its Job is made: a budget is charged once
    return status


def _take_order(draft: MemberDraft, status: SiloStatus, current: SiloOrder) -> SiloStatus:
    """Refuse an order, wait for allowed hours or budget, or take it."""
    if current.veto:
        why = f"order {current.order.serial} refused: {current.message}"
        draft.tell("OrderRefused", why, warning=True)
        letter = PendingLetter(
            kind="refused", order=current.order, code=current.veto, path=current.path
        )
        return _close_order(_change_order(status, state="Refused"), letter, current, "refused")
    held = _hold(draft, status, current)
    if held:
        return held
    status = _charge(draft, status, current)
    taken = {"state": "Working", "taken_at": draft.now, "waits_for": "", "message": ""}
    return _queue_letter(
        _change_order(status, **taken), PendingLetter(kind="taken", order=current.order)
    )


def _hold(draft: MemberDraft, status: SiloStatus, current: SiloOrder) -> SiloStatus | None:
    """The status of an order whose next attempt has to wait for its owner's hours or budget."""
    limits, usage = draft.silo.spec.limits, _start_day(status.usage, draft.now)
    opening = find_opening(limits.windows, draft.now)
    if opening is None or opening > draft.now:
        return _postpone(draft, status, current, "window", opening)
    if limits.job_seconds_per_day and (
        usage.day_seconds + limits.job_seconds > limits.job_seconds_per_day
    ):
        tomorrow = datetime.combine(
            draft.now.astimezone(UTC).date() + timedelta(days=1), datetime.min.time(), UTC
        )
        return _postpone(draft, status, current, "budget", tomorrow)
    return None


def _postpone(
    draft: MemberDraft, status: SiloStatus, current: SiloOrder, code: str, until: datetime | None
) -> SiloStatus:
    draft.wake(until)
    if current.waits_for == code:
        return status
    seconds = int((until - draft.now).total_seconds()) if until else 0
    why = {"window": "its owner's hours", "budget": "tomorrow's budget"}.get(code, code)
    status = _change_order(status, state="Waiting", waits_for=code, message=f"waits for {why}")
    letter = PendingLetter(kind="waits", order=current.order, code=code, seconds=seconds)
    return _queue_letter(status, letter)


def _advance_job(draft: MemberDraft, status: SiloStatus, current: SiloOrder) -> SiloStatus:
    """Advance the client's Job, and report its progress and end to the coordinator."""
    if current.attempt > current.charged_attempt:  # a retry is charged before its Job is made
        if current.not_before and draft.now < current.not_before:
            draft.wake(current.not_before)
            return status
        draft.wake(draft.now)
        return _hold(draft, status, current) or _charge(draft, status, current)
    job = draft.ask(_build_client_job(draft, status, current), current.not_before)
    if job is None or job.state == "starting":
        return _check_start(draft, status, current, job)
    if job.state == "queued":
        if current.waits_for == "queue":
            return status
        status = _change_order(status, waits_for="queue", message=job.message)
        return _queue_letter(status, PendingLetter(kind="waits", order=current.order, code="queue"))
    if job.state == "running":
        end = deadline.compute_end(job.started_at, draft.silo.spec.limits.job_seconds)
        if deadline.is_over(end, draft.now):
            why = f"did not finish within limits.jobSeconds ({draft.silo.spec.limits.job_seconds})"
            return _handle_failure(draft, status, current, job, why)
        draft.wake(end)
        status = _change_order(status, waits_for="", message="")
        if not current.waits_for:
            return status
        return _queue_letter(status, PendingLetter(kind="taken", order=current.order))
    report = job.report
    if job.state == "succeeded" and isinstance(report, ClientReport | EvaluateReport):
        letter = PendingLetter(kind="answer", order=current.order, report=report)
        return _close_order(
            _change_order(status, state="Done", message=""), letter, current, "answered"
        )
    if job.state == "succeeded":
        return _schedule_retry(draft, status, current, "its report was lost", counted=False)
    return _handle_failure(draft, status, current, job, retry.explain_failure(job))


def _check_start(
    draft: MemberDraft, status: SiloStatus, current: SiloOrder, job: ObservedJob | None
) -> SiloStatus:
    if job is None:
        return status
    patience = draft.silo.spec.start_timeout_seconds
    end = deadline.compute_end(job.created_at, patience)
    if deadline.is_over(end, draft.now):
        why = f"did not start within {patience} s: {job.message or 'no reason was given'}"
        return _handle_failure(draft, status, current, job, why)
    draft.wake(end)
    return _change_order(status, message=job.message) if job.message else status


def _handle_failure(
    draft: MemberDraft, status: SiloStatus, current: SiloOrder, job: ObservedJob, why: str
) -> SiloStatus:
    retries = draft.silo.spec.retries
    verdict = retry.judge_failure(job, failures=current.failures, retries=retries)
    if verdict.again:
        return _schedule_retry(draft, status, current, why, counted=verdict.counted)
    draft.tell("JobFailed", f"order {current.order.serial}: {why}", warning=True)
    code = job.exit_code if job.exit_code is not None else Exit.CRASHED
    letter = PendingLetter(
        kind="failed", order=current.order, exit=min(code, 255), attempts=current.attempt
    )
    return _close_order(
        _change_order(status, state="Failed", message=why), letter, current, "failed"
    )


def _schedule_retry(
    draft: MemberDraft, status: SiloStatus, current: SiloOrder, why: str, *, counted: bool
) -> SiloStatus:
    pause = timedelta(seconds=retry.delay_seconds(current.attempt))
    draft.wake(draft.now + pause)
    draft.tell("JobRetried", why, warning=True)
    return _change_order(
        status,
        attempt=current.attempt + 1,
        failures=current.failures + counted,
        not_before=draft.now + pause,
        message=why,
    )


def _change_order(status: SiloStatus, **changes: object) -> SiloStatus:
    current = status.current
    changed = current.model_copy(update=changes) if current else None
    return status.model_copy(update={"current": changed})


def _queue_letter(status: SiloStatus, letter: PendingLetter) -> SiloStatus:
    return status.model_copy(update={"owed": [*status.owed, letter]})


def _close_order(
    status: SiloStatus, letter: PendingLetter, order: SiloOrder, outcome: Outcome
) -> SiloStatus:
    """The status with an order that is done, and its line in the list of rounds."""
    line = SiloRound.from_order(order, outcome, letter.report)
    lines = [*status.rounds, line][-MOST_ROUNDS:]
    update = {
        "rounds": lines,
        "success": line.success or status.success,
        "usage": _record_end(status.usage, order, outcome),
    }
    return _queue_letter(status, letter).model_copy(update=update)


def _start_day(usage: SiloUsage, now: datetime) -> SiloUsage:
    day = now.astimezone(UTC).date().isoformat()
    return usage if usage.day == day else usage.model_copy(update={"day": day, "day_seconds": 0})


def _charge(draft: MemberDraft, status: SiloStatus, order: SiloOrder) -> SiloStatus:
    """An order is charged at its maximum before it starts; its retries take more time only."""
    usage = _start_day(status.usage, draft.now)
    is_new = order.charged_attempt == 0
    episodes = order.episodes if is_new and order.work not in usage.answered else 0
    if is_new and order.role == "client":
        usage = usage.with_rounds([*usage.list_taken(), order.round])
    seconds = usage.day_seconds + draft.silo.spec.limits.job_seconds
    usage = usage.model_copy(update={"episodes": usage.episodes + episodes, "day_seconds": seconds})
    charged = {"charged_attempt": order.attempt}
    if is_new:
        charged["charged_episodes"] = episodes
    return _change_order(status, **charged).model_copy(update={"usage": usage})


def _record_end(usage: SiloUsage, order: SiloOrder, outcome: Outcome) -> SiloUsage:
    """Answered work is not charged again, and a round that failed here is none of those agreed."""
    if outcome == "answered" and order.work:
        answered = [*(each for each in usage.answered if each != order.work), order.work]
        return usage.model_copy(update={"answered": answered[-MOST_ROUNDS:]})
    if outcome == "failed" and order.role == "client":
        left = usage.with_rounds(each for each in usage.list_taken() if each != order.round)
        return left.model_copy(update={"failed": usage.failed + 1})
    return usage


# -- letters and Jobs -------------------------------------------------------------------------


def _greet(draft: MemberDraft, status: SiloStatus) -> SiloStatus:
    """Greet the coordinator: at first, and after a long silence."""
    current = status.current
    if current and current.state in ("Resting", "Working", "Waiting"):
        return status
    last = max((m for m in (status.greeted_at, status.heard_at) if m), default=None)
    due = deadline.compute_end(last, GREET_SECONDS)
    if last and not deadline.is_over(due, draft.now):
        draft.wake(due)
        return status
    status = status.model_copy(update={"greeted_at": draft.now})
    return _queue_letter(status, PendingLetter(kind="hello"))


def _leave(draft: MemberDraft, status: SiloStatus) -> SiloStatus:
    """Post one letter that the silo leaves; no Job runs."""
    if not status.left:
        status = status.model_copy(update={"owed": [PendingLetter(kind="leave")], "left": True})
    return _send(draft, status) if status.owed else status


def _send(draft: MemberDraft, status: SiloStatus) -> SiloStatus:
    """Ask for a courier that posts pending letters, or listens for the next order."""
    task = SiloCourierAssignment(
        member=draft.silo.spec,
        usage=status.usage,
        sent=status.sent,
        received=status.received,
        order=status.current.order if status.current else None,
        post=status.owed,
    )
    round_ = status.current.round if status.current else 0
    courier = draft.request_courier(status.courier, task, round_)
    return status.model_copy(update={"courier": courier})


def _build_client_job(draft: MemberDraft, status: SiloStatus, current: SiloOrder) -> JobRequest:
    role = current.role or "client"
    name = draft.silo.metadata.name
    usage = status.usage.model_copy(  # without this order
        update={"episodes": status.usage.episodes - current.charged_episodes}
    )
    return JobRequest(
        name=job_names.silo_job(name, role, current.round, current.order.serial, current.attempt),
        role=role,
        round=current.round,
        environment=draft.silo.spec.federation.environment,
        attempt=current.attempt,
        assignment=SiloClientAssignment(
            role=role,
            order=current.order,
            member=draft.silo.spec,
            usage=usage,
            answered=status.find_manifest(current.round),
        ),
    )
