"""Remote silos as `plan()` sees them: each is a Job that somebody else runs.

Orders and answers are letters in the bucket, which a courier Job posts and reads; its report is
what is known. A part of `plan()`, and as pure: no I/O, no clock, no randomness.
"""

from hansa.api.assignment import Assignment
from hansa.api.bucket_documents import StartAdapter
from hansa.api.constants import CONCLUDED
from hansa.api.courier_assignment import (
    CourierAssignment,
    CourierReport,
    LetterSummary,
    LogAdvance,
    OrderDetails,
    SiloMail,
)
from hansa.api.exchange import Cursor, MemberStatus, PostedOrder
from hansa.api.jobs import JobState, ObservedJob
from hansa.api.letters import FAULTS, VETOES, compute_run_id, strip_silo_fields
from hansa.api.spec import FederationSpec
from hansa.api.status import CurrentRound, FederationStatus, RoundEnvironment
from hansa.core.exits import describe_failure
from hansa.core.text import count
from hansa.plan.builder import Draft
from hansa.plan.job_requests import build_client_assignment
from hansa.plan.policy import courier as couriers
from hansa.plan.policy import orders, presence

WAITS = {
    "window": "waits for the hours that its owner allows",
    "budget": "waits for its owner's daily budget to reset",
    "queue": "waits in a queue of its own cluster",
    "start": "waits for its Pod to start",
}

TWIN = (
    "its log has orders that this status does not know: it was restored from an old copy, or "
    "another coordinator uses the same key; continues after them"
)


# -- what the courier brought -----------------------------------------------------------------


def receive(draft: Draft, status: FederationStatus) -> tuple[FederationStatus, str]:
    """The status with what an ended courier brought, and why the exchange is broken, if it is."""
    # First: a report speaks of the silos in its courier's assignment, and these are stored.
    status, why = _apply_courier(draft, status)
    return _update_members(status, draft.federation.spec), why


def _apply_courier(draft: Draft, status: FederationStatus) -> tuple[FederationStatus, str]:
    courier = status.courier
    job = draft.find_courier_job(courier)
    if courier is None or job is None:
        return status, ""
    if job.is_active:
        return status.model_copy(update={"courier": couriers.note_progress(courier, job)}), ""
    report = job.report
    is_whole = isinstance(report, CourierReport) and report.is_about(len(status.members))
    if job.state == "succeeded" and isinstance(report, CourierReport) and is_whole:
        status = _apply_report(draft, status, report)
        return status.model_copy(update={"courier": couriers.follow_success(courier)}), ""
    courier, again = couriers.follow_failure(courier, job, draft.now)
    why = f"courier: {courier.message}"
    if again:
        draft.tell("JobRetried", why, warning=True)
    return status.model_copy(update={"courier": courier}), "" if again else why


def _update_members(status: FederationStatus, spec: FederationSpec) -> FederationStatus:
    """A line for every remote silo; one that was removed stays until its last letter is posted."""
    wanted = {e.name for e in spec.environments if e.member}
    known = {m.name: m for m in status.members if m.name in wanted or not orders.is_forgotten(m)}
    if not wanted and not known and not status.members:
        return status
    lines = {**{name: MemberStatus(name=name) for name in wanted}, **known}
    members = [_readmit(lines[name]) if name in wanted else lines[name] for name in sorted(lines)]
    return status.model_copy(update={"members": members})


def _readmit(member: MemberStatus) -> MemberStatus:
    """A silo that is in the spec again: the letter of its removal no longer counts."""
    is_back = member.order == orders.REMOVED
    return member.model_copy(update={"order": None}) if is_back else member


def _apply_report(
    draft: Draft, status: FederationStatus, report: CourierReport
) -> FederationStatus:
    members = list(status.members)
    for moved in report.posted:
        members[moved.box] = _record_posted(draft, members[moved.box], moved)
    for moved in report.read:
        head = Cursor(serial=moved.serial, digest=moved.digest)
        members[moved.box] = members[moved.box].model_copy(update={"received": head})
    for news in report.news:
        members[news.box] = _apply_letter(draft, members[news.box], news)
    for fault in report.faults:
        why = FAULTS.get(fault.code, fault.code)  # type: ignore[call-overload]
        objects = count(fault.count, "object")
        name = members[fault.box].name
        draft.tell("LetterRefused", f"{name}: {objects} in its log: {why}", warning=True)
    return status.model_copy(update={"members": members})


def _record_posted(draft: Draft, member: MemberStatus, moved: LogAdvance) -> MemberStatus:
    """Note a letter that is in the bucket, as it was posted."""
    update: dict[str, object] = {"sent": Cursor(serial=moved.serial, digest=moved.digest)}
    if moved.ahead:
        draft.tell("Twin", f"{member.name}: {TWIN}", warning=True)
    if moved.order:
        update |= {"order": moved.order, "word": "", "message": ""}
        update |= {"posted_at": draft.now, "taken_at": None}
    return member.model_copy(update=update)


def _apply_letter(draft: Draft, member: MemberStatus, news: LetterSummary) -> MemberStatus:
    """Apply one letter; about an older order it only shows that the silo is present."""
    update: dict[str, object] = {"seen_at": draft.now}
    if news.kind == "leave":
        draft.tell("MemberLeft", f"{member.name} takes no further part", warning=True)
        return member.model_copy(
            update={**update, "state": "Left", "word": "leave", "message": "it has left"}
        )
    if member.state != "Present":
        draft.tell("MemberJoined", f"{member.name} is there")
        update["state"] = "Present"
    if news.order == member.sent.serial and news.kind not in ("hello", ""):
        update |= {"word": news.kind, "message": _describe_news(news)}
        if news.kind == "taken":
            update["taken_at"] = draft.now
        if news.kind == "refused":
            draft.tell("OrderRefused", f"{member.name} {_describe_news(news)}", warning=True)
        if news.kind == "answer":
            draft.answers[member.name] = news.report
    return member.model_copy(update=update)


def _describe_news(news: LetterSummary) -> str:
    if news.kind == "waits":
        return WAITS.get(news.code, "waits")
    if news.kind == "refused":
        why = VETOES.get(news.code, "its owner does not allow it")  # type: ignore[call-overload]
        return f"refuses: {news.path or 'the order'}: {why}"
    if news.kind == "failed":
        return describe_failure(news.exit)
    return ""


# -- what a round sees of a silo --------------------------------------------------------------


def observe(
    draft: Draft, status: FederationStatus, current: CurrentRound, environment: RoundEnvironment
) -> ObservedJob:
    """A silo's part in the round as a Job, from its letters.

    Its failures are not retried here: the silo does that itself.
    """
    member = next(m for m in status.members if m.name == environment.name)
    state, message = _find_state(member, orders.build_work_order(current))
    report = draft.answers.get(member.name) if state == "succeeded" else None
    if state == "succeeded" and (
        report is None
        or not report.answers(build_client_assignment(draft.federation, current, environment.name))
    ):
        state, message = "failed", "answered another assignment than its own"
    return ObservedJob(
        name="",
        role="client" if current.kind == "round" else "evaluate",
        round=current.round,
        environment=environment.name,
        attempt=environment.attempt,
        state=state,
        created_at=member.posted_at or draft.now,
        started_at=member.taken_at if state != "queued" else None,
        reason="CannotStart",
        message=message,
        report=report,
    )


def _find_state(member: MemberStatus, order: PostedOrder) -> tuple[JobState, str]:
    if member.order != order:
        return "queued", "its order is not posted yet"
    states: dict[str, tuple[JobState, str]] = {
        "": ("starting", f"order {member.sent.serial} is not taken yet"),
        "waits": ("queued", member.message),
        "taken": ("running", ""),
        "answer": ("succeeded", ""),
    }
    return states.get(member.word, ("failed", member.message))


def note_absence(
    draft: Draft, status: FederationStatus, environment: RoundEnvironment
) -> FederationStatus:
    """A silo that did not take an order in time is Away until it writes."""
    away = [
        m.model_copy(update={"state": "Away"})
        if m.name == environment.name and m.state == "Present" and not m.word
        else m
        for m in status.members
    ]
    if away == status.members:
        return status
    why = f"{environment.name} did not take its order; it gets a new one once it writes"
    draft.tell("MemberAway", why, warning=True)
    return status.model_copy(update={"members": away})


# -- orders of silos --------------------------------------------------------------------------


def give_up(spec: FederationSpec, status: FederationStatus) -> FederationStatus:
    """Treat letters to resting silos as posted, so that a broken bucket cannot block the end."""
    owed = [orders.find_owed(spec, status, member) for member in status.members]
    members = [
        member.model_copy(update={"order": order}) if order and order.kind == "rest" else member
        for member, order in zip(status.members, owed, strict=True)
    ]
    return status.model_copy(update={"members": members})


def send(draft: Draft, status: FederationStatus) -> FederationStatus:
    """Ask for a courier while letters are to be posted or expected."""
    task = _build_task(draft, status)
    if task is None:
        return status
    courier = draft.request_courier(status.courier, task, status.round)
    return status.model_copy(update={"courier": courier})


def _build_task(draft: Draft, status: FederationStatus) -> CourierAssignment | None:
    spec, current = draft.federation.spec, status.current
    owed = [orders.find_owed(spec, status, member) for member in status.members]
    listens = _must_listen(spec, status)
    if not (any(owed) or listens) or spec.storage is None or spec.exchange is None:
        return None
    boxes = [
        _build_box(draft, status, member, order)
        for member, order in zip(status.members, owed, strict=True)
    ]
    works = [box.environment for box in boxes if box.work]
    template = None
    if current and works:
        order = build_client_assignment(draft.federation, current, works[0])
        template = strip_silo_fields(order).model_copy(update={"environment": ""})
    rules = current.participation if current else spec.participation
    kept = status.adapter
    return CourierAssignment(
        federation=draft.federation.metadata.name,
        run=compute_run_id(spec.storage.s3, spec.identity()),
        instance=draft.federation.metadata.uid,
        storage=spec.storage.s3,
        public_keys=spec.exchange.public_keys,
        poll_seconds=spec.exchange.poll_seconds,
        boxes=boxes,
        template=template,
        start_seconds=rules.start_timeout_seconds,
        round_seconds=rules.round_timeout_seconds,
        adapter=StartAdapter(round=kept.round, sha256=kept.sha256) if kept else None,
        audit=status.audit,
        listens=listens,
    )


def _must_listen(spec: FederationSpec, status: FederationStatus) -> bool:
    """Whether letters are expected: before a round opens, in it, or from silos that return."""
    current = status.current
    if spec.suspend or status.failed or not status.members:
        return False
    if current is None:
        return status.completed < spec.rounds and bool(presence.explain_wait(spec, status))
    if current.kind == "round":
        return current.members is None
    return any(e.remote and e.state not in CONCLUDED for e in current.environments)


def _build_box(
    draft: Draft, status: FederationStatus, member: MemberStatus, order: PostedOrder | None
) -> SiloMail:
    spec, current = draft.federation.spec, status.current
    known = next((e.member for e in spec.environments if e.name == member.name), None)
    work = None
    if current and order and order.kind == "work":
        own: Assignment = build_client_assignment(draft.federation, current, member.name)
        work = OrderDetails(
            start=own.start, own_start=own.own_start, demonstrations=own.demonstrations
        )
    return SiloMail(
        environment=member.name,
        public_keys=known.public_keys if known else spec.exchange.public_keys,  # type: ignore[union-attr]
        sent=member.sent,
        received=member.received,
        work=work,
        order=order,
    )
