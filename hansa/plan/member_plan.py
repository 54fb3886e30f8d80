"""What a silo does next, from its owner's wishes, the newest order and what is seen of its Jobs.

`follow()` is to a FederationMember what `plan()` is to a Federation, and as pure: no I/O, no clock,
no randomness. The newest order wins; nothing is done that the owner's limits do not allow.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from hansa.api import job_names
from hansa.api.assignment import ClientReport, EvaluateReport
from hansa.api.bucket_documents import fingerprint
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
from hansa.api.silo_assignment import SiloReport, SiloTask, SiloWork
from hansa.core.exits import Exit, facts
from hansa.plan import member_trouble as trouble
from hansa.plan.member_builder import MemberDraft, SiloPlan
from hansa.plan.member_windows import opens_at
from hansa.plan.policy import courier as couriers
from hansa.plan.policy import deadline, retry

GREET_SECONDS = 3600
"""A silo that hears nothing says this often that it is there: who was lost is found again."""

RESTS_POLLS = 20
"""After what only a person can fix, the bucket is asked this many times more rarely."""
TWIN = (
    "the silo's log has letters that its status does not know: it was restored from an old copy, "
    "or another one runs with its key; goes on behind them"
)


def follow(silo: FederationMember, observed: Sequence[ObservedJob], now: datetime) -> SiloPlan:
    """The next plan; calling it again in an unchanged world changes nothing."""
    draft = MemberDraft(silo, observed, now)
    status = _hear(draft, silo.status)
    if silo.spec.suspend:
        return draft.finish(status)
    if silo.spec.leave:
        return draft.finish(_leave(draft, status))
    if status.left:  # the owner thought better of it
        owed = [letter for letter in status.owed if letter.kind != "leave"]
        anew = {"left": False, "owed": owed, "greeted_at": None, "heard_at": None}
        status = status.model_copy(update=anew)
    if status.trouble != "LogReplaced":  # what was agreed on is gone: nothing more is done for it
        status = _work(draft, status)
    return draft.finish(_send(draft, _greet(draft, status)))


# -- what the courier brought -----------------------------------------------------------------


def _hear(draft: MemberDraft, status: SiloStatus) -> SiloStatus:
    courier = status.courier
    job = draft.observed(_courier_name(draft, courier.attempt)) if courier else None
    if courier is None or job is None:
        return status
    if job.is_active:
        return status.model_copy(update={"courier": couriers.under_way(courier, job)})
    if job.state == "succeeded" and isinstance(job.report, SiloReport):
        status = _apply_report(draft, status, job.report)
        well = {"courier": couriers.after_success(courier), "message": "", "trouble": ""}
        return status.model_copy(update=well)
    rests = RESTS_POLLS * draft.silo.spec.poll_seconds
    ended = couriers.after_failure(courier, trouble.in_words(job), draft.now, rests_seconds=rests)
    draft.tell("JobRetried", ended.why, warning=True)
    update = {"courier": ended.next, "message": status.message if ended.again else ended.why}
    return status.model_copy(update={**update, "trouble": trouble.of(job)})


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
        # What was owed for an older order is nobody's question any more.
        update["owed"] = [w for w in status.owed[report.posted :] if w.order is None]
    if report.missed:
        update |= {"owed": [PendingLetter(kind="hello")], "greeted_at": draft.now}
    return status.model_copy(update=update)


# -- its own Job ------------------------------------------------------------------------------


def _work(draft: MemberDraft, status: SiloStatus) -> SiloStatus:
    current = status.current
    if current is None:
        return status
    if current.state == "Working":
        return _step(draft, status, current)
    if current.state in ("New", "Waiting"):
        status = _take(draft, status, current)
        if status.current and status.current.state == "Working":
            draft.wake(draft.now)  # stored before its Job is made: a budget is charged once
    return status


def _take(draft: MemberDraft, status: SiloStatus, current: SiloOrder) -> SiloStatus:
    """Refuse an order, wait for hours or budget, or take it on."""
    if current.veto:
        why = f"order {current.order.serial} refused: {current.message}"
        draft.tell("OrderRefused", why, warning=True)
        letter = PendingLetter(
            kind="refused", order=current.order, code=current.veto, path=current.path
        )
        return _ended(_changed(status, state="Refused"), letter, current, "refused")
    limits, usage = draft.silo.spec.limits, _today(status.usage, draft.now)
    opening = opens_at(limits.windows, draft.now)
    if opening is None or opening > draft.now:
        return _waits(draft, status, current, "window", opening)
    if limits.job_seconds_per_day and (
        usage.day_seconds + limits.job_seconds > limits.job_seconds_per_day
    ):
        tomorrow = datetime.combine(
            draft.now.astimezone(UTC).date() + timedelta(days=1), datetime.min.time(), UTC
        )
        return _waits(draft, status, current, "budget", tomorrow)
    usage = _charged(usage, current, limits.job_seconds)
    taken = {"state": "Working", "taken_at": draft.now, "waits_for": "", "message": ""}
    status = _changed(status, **taken).model_copy(update={"usage": usage})
    return _owing(status, PendingLetter(kind="taken", order=current.order))


def _waits(
    draft: MemberDraft, status: SiloStatus, current: SiloOrder, code: str, until: datetime | None
) -> SiloStatus:
    draft.wake(until)
    if current.waits_for == code:
        return status
    seconds = int((until - draft.now).total_seconds()) if until else 0
    why = {"window": "its owner's hours", "budget": "tomorrow's budget"}.get(code, code)
    status = _changed(status, state="Waiting", waits_for=code, message=f"waits for {why}")
    letter = PendingLetter(kind="waits", order=current.order, code=code, seconds=seconds)
    return _owing(status, letter)


def _step(draft: MemberDraft, status: SiloStatus, current: SiloOrder) -> SiloStatus:
    """Bring the client's Job forward; the coordinator hears how far it is, and of its end."""
    job = draft.ask(_client(draft, status, current), current.not_before)
    if job is None or job.state == "starting":
        return _starting(draft, status, current, job)
    if job.state == "queued":
        if current.waits_for == "queue":
            return status
        status = _changed(status, waits_for="queue", message=job.message)
        return _owing(status, PendingLetter(kind="waits", order=current.order, code="queue"))
    if job.state == "running":
        end = deadline.ends_at(job.started_at, draft.silo.spec.limits.job_seconds)
        if deadline.is_over(end, draft.now):
            why = f"did not finish within limits.jobSeconds ({draft.silo.spec.limits.job_seconds})"
            return _failed(draft, status, current, job, why)
        draft.wake(end)
        status = _changed(status, waits_for="", message="")
        if not current.waits_for:
            return status
        return _owing(status, PendingLetter(kind="taken", order=current.order))
    report = job.report
    if job.state == "succeeded" and isinstance(report, ClientReport | EvaluateReport):
        letter = PendingLetter(kind="answer", order=current.order, report=report)
        return _ended(_changed(status, state="Done", message=""), letter, current, "answered")
    if job.state == "succeeded":
        return _again(draft, status, current, "its report was lost", counted=False)
    return _failed(draft, status, current, job, job.message or facts(job.exit_code).help)


def _starting(
    draft: MemberDraft, status: SiloStatus, current: SiloOrder, job: ObservedJob | None
) -> SiloStatus:
    if job is None:
        return status
    patience = draft.silo.spec.start_timeout_seconds
    end = deadline.ends_at(job.created_at, patience)
    if deadline.is_over(end, draft.now):
        why = f"did not start within {patience} s: {job.message or 'no reason was given'}"
        return _failed(draft, status, current, job, why)
    draft.wake(end)
    return _changed(status, message=job.message) if job.message else status


def _failed(
    draft: MemberDraft, status: SiloStatus, current: SiloOrder, job: ObservedJob, why: str
) -> SiloStatus:
    verdict = retry.after_failure(
        exit_code=job.exit_code,
        disrupted=job.reason == "Disrupted",
        cannot_start=job.reason == "CannotStart",
        failures=current.failures,
        retries=draft.silo.spec.retries,
    )
    if verdict.again:
        return _again(draft, status, current, why, counted=verdict.counted)
    draft.tell("JobFailed", f"order {current.order.serial}: {why}", warning=True)
    code = job.exit_code if job.exit_code is not None else Exit.CRASHED
    letter = PendingLetter(
        kind="failed", order=current.order, exit=min(code, 255), attempts=current.attempt
    )
    return _ended(_changed(status, state="Failed", message=why), letter, current, "failed")


def _again(
    draft: MemberDraft, status: SiloStatus, current: SiloOrder, why: str, *, counted: bool
) -> SiloStatus:
    pause = timedelta(seconds=retry.delay_seconds(current.attempt))
    draft.wake(draft.now + pause)
    draft.tell("JobRetried", why, warning=True)
    return _changed(
        status,
        attempt=current.attempt + 1,
        failures=current.failures + counted,
        not_before=draft.now + pause,
        message=why,
    )


def _changed(status: SiloStatus, **changes: object) -> SiloStatus:
    current = status.current
    changed = current.model_copy(update=changes) if current else None
    return status.model_copy(update={"current": changed})


def _owing(status: SiloStatus, letter: PendingLetter) -> SiloStatus:
    return status.model_copy(update={"owed": [*status.owed, letter]})


def _ended(
    status: SiloStatus, letter: PendingLetter, order: SiloOrder, outcome: Outcome
) -> SiloStatus:
    """An order that needs nothing more, with its line in the list."""
    line = SiloRound.of(order, outcome, letter.report)
    lines = [*status.rounds, line][-MOST_ROUNDS:]
    update = {"rounds": lines, "success": line.success or status.success}
    return _owing(status, letter).model_copy(update=update)


def _today(usage: SiloUsage, now: datetime) -> SiloUsage:
    day = now.astimezone(UTC).date().isoformat()
    return usage if usage.day == day else usage.model_copy(update={"day": day, "day_seconds": 0})


def _charged(usage: SiloUsage, order: SiloOrder, seconds: int) -> SiloUsage:
    """An order counts with its most before it starts; one that is asked for again, not again."""
    update: dict[str, object] = {"day_seconds": usage.day_seconds + seconds}
    if order.role != "client":
        update["episodes"] = usage.episodes + order.episodes
    elif order.round > usage.newest:
        update |= {"rounds": usage.rounds + 1, "newest": order.round}
        update["episodes"] = usage.episodes + order.episodes
    return usage.model_copy(update=update)


# -- letters and Jobs -------------------------------------------------------------------------


def _greet(draft: MemberDraft, status: SiloStatus) -> SiloStatus:
    """Say that one is there: at first, and when nothing was heard for long."""
    current = status.current
    if current and current.state in ("Resting", "Working", "Waiting"):
        return status
    last = max((m for m in (status.greeted_at, status.heard_at) if m), default=None)
    due = deadline.ends_at(last, GREET_SECONDS)
    if last and not deadline.is_over(due, draft.now):
        draft.wake(due)
        return status
    status = status.model_copy(update={"greeted_at": draft.now})
    return _owing(status, PendingLetter(kind="hello"))


def _leave(draft: MemberDraft, status: SiloStatus) -> SiloStatus:
    """Say so, once; nothing runs any more."""
    if not status.left:
        status = status.model_copy(update={"owed": [PendingLetter(kind="leave")], "left": True})
    return _send(draft, status) if status.owed else status


def _send(draft: MemberDraft, status: SiloStatus) -> SiloStatus:
    """A courier that posts what is owed, or listens for the next order."""
    task = SiloTask(
        member=draft.silo.spec,
        usage=status.usage,
        sent=status.sent,
        received=status.received,
        order=status.current.order if status.current else None,
        post=status.owed,
    )
    courier = couriers.with_task(status.courier, fingerprint(task.to_json()))
    if courier != status.courier:  # stored before it is made: a name never has two tasks
        draft.wake(draft.now)
        return status.model_copy(update={"courier": courier})
    draft.ask(
        JobRequest(
            name=_courier_name(draft, courier.attempt),
            role="courier",
            round=status.current.round if status.current else 0,
            environment="",
            attempt=courier.attempt,
            assignment=task,
        ),
        courier.not_before,
    )
    return status


def _client(draft: MemberDraft, status: SiloStatus, current: SiloOrder) -> JobRequest:
    role = current.role or "client"
    name = draft.silo.metadata.name
    usage = status.usage  # which counts this order already
    if role == "evaluate":
        usage = usage.model_copy(update={"episodes": usage.episodes - current.episodes})
    return JobRequest(
        name=job_names.silo_job(name, role, current.round, current.order.serial, current.attempt),
        role=role,
        round=current.round,
        environment=draft.silo.spec.federation.environment,
        attempt=current.attempt,
        assignment=SiloWork(
            role=role,
            order=current.order,
            member=draft.silo.spec,
            usage=usage,
            answered=status.answered_with(current.round),
        ),
    )


def _courier_name(draft: MemberDraft, attempt: int) -> str:
    return job_names.silo_courier_job(draft.silo.metadata.name, attempt)
