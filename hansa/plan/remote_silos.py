"""Silos that run elsewhere, as `plan()` sees them: each is a Job that somebody else runs.

Orders and answers are letters in the bucket, which a courier Job posts and reads; its report is
what is known. A part of `plan()`, and as pure: no I/O, no clock, no randomness.
"""

from hansa.api import job_names
from hansa.api.assignment import Assignment
from hansa.api.bucket_documents import StartAdapter, fingerprint
from hansa.api.constants import CONCLUDED
from hansa.api.courier_assignment import Box, CourierReport, CourierTask, Moved, News, WorkOrder
from hansa.api.exchange import CourierStatus, Cursor, MemberStatus, PostedOrder
from hansa.api.jobs import JobRequest, JobState, ObservedJob
from hansa.api.letters import FAULTS, VETOES, run_of, without_the_silos_own
from hansa.api.spec import FederationSpec
from hansa.api.status import CurrentRound, FederationStatus, RoundEnvironment
from hansa.core.exits import gave_up
from hansa.core.text import count
from hansa.plan.builder import Draft
from hansa.plan.job_requests import for_environment
from hansa.plan.policy import courier as couriers
from hansa.plan.policy import orders, presence

WAITS = {
    "window": "waits for the hours that its owner gave",
    "budget": "waits until its owner's budget of today is new",
    "queue": "waits in a queue of its own cluster",
    "start": "waits for its Pod to start",
}

TWIN = (
    "its log has orders that this status does not know: it was restored from an old copy, or "
    "somebody else coordinates with the same key; goes on behind them"
)


# -- what the courier brought -----------------------------------------------------------------


def receive(draft: Draft, status: FederationStatus) -> tuple[FederationStatus, str]:
    """The status with what an ended courier brought; and why nobody can go on, if so."""
    # First: a report speaks of the silos in its courier's assignment, and these are stored.
    status, why = _heed_courier(draft, status)
    return _with_lines(status, draft.federation.spec), why


def _heed_courier(draft: Draft, status: FederationStatus) -> tuple[FederationStatus, str]:
    courier = status.courier
    job = draft.observed(_name(draft, courier)) if courier else None
    if courier is None or job is None:
        return status, ""
    if job.is_active:
        return status.model_copy(update={"courier": couriers.under_way(courier, job)}), ""
    report = job.report
    is_whole = isinstance(report, CourierReport) and report.speaks_of(len(status.members))
    if job.state == "succeeded" and isinstance(report, CourierReport) and is_whole:
        status = _apply_report(draft, status, report)
        return status.model_copy(update={"courier": couriers.after_success(courier)}), ""
    ended = couriers.after_failure(courier, job, draft.now)
    if ended.again:
        draft.tell("JobRetried", ended.why, warning=True)
    status = status.model_copy(update={"courier": ended.next})
    return status, "" if ended.again else ended.why


def _with_lines(status: FederationStatus, spec: FederationSpec) -> FederationStatus:
    """A line for every silo that runs elsewhere; of one that left, until its letter is posted."""
    wanted = {e.name for e in spec.environments if e.member}
    known = {m.name: m for m in status.members if m.name in wanted or not orders.is_forgotten(m)}
    if not wanted and not known and not status.members:
        return status
    lines = {**{name: MemberStatus(name=name) for name in wanted}, **known}
    members = [_back(lines[name]) if name in wanted else lines[name] for name in sorted(lines)]
    return status.model_copy(update={"members": members})


def _back(member: MemberStatus) -> MemberStatus:
    """One that is in the spec again: the letter that it got when it left no longer counts."""
    is_back = member.order == orders.REMOVED
    return member.model_copy(update={"order": None}) if is_back else member


def _apply_report(
    draft: Draft, status: FederationStatus, report: CourierReport
) -> FederationStatus:
    members = list(status.members)
    for moved in report.posted:
        members[moved.box] = _posted(draft, members[moved.box], moved)
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


def _posted(draft: Draft, member: MemberStatus, moved: Moved) -> MemberStatus:
    """A letter is in the bucket: what it says counts, and not what is owed by now."""
    update: dict[str, object] = {"sent": Cursor(serial=moved.serial, digest=moved.digest)}
    if moved.ahead:
        draft.tell("Twin", f"{member.name}: {TWIN}", warning=True)
    if moved.order:
        update |= {"order": moved.order, "word": "", "message": ""}
        update |= {"posted_at": draft.now, "taken_at": None}
    return member.model_copy(update=update)


def _apply_letter(draft: Draft, member: MemberStatus, news: News) -> MemberStatus:
    """One letter; what it says of an older order only shows that somebody is there."""
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
        update |= {"word": news.kind, "message": _message(news)}
        if news.kind == "taken":
            update["taken_at"] = draft.now
        if news.kind == "refused":
            draft.tell("OrderRefused", f"{member.name} {_message(news)}", warning=True)
        if news.kind == "answer":
            draft.answers[member.name] = news.report
    return member.model_copy(update=update)


def _message(news: News) -> str:
    if news.kind == "waits":
        return WAITS.get(news.code, "waits")
    if news.kind == "refused":
        why = VETOES.get(news.code, "its owner does not allow it")  # type: ignore[call-overload]
        return f"refuses: {news.path or 'the order'}: {why}"
    if news.kind == "failed":
        return gave_up(news.exit)
    return ""


# -- what a round sees of a silo --------------------------------------------------------------


def observe(
    draft: Draft, status: FederationStatus, current: CurrentRound, environment: RoundEnvironment
) -> ObservedJob:
    """A silo's part in the round as the Job that its letters tell of.

    None of its failures is tried again here: retries of a silo are the silo's own affair.
    """
    member = next(m for m in status.members if m.name == environment.name)
    state, message = _state(member, orders.work(current))
    report = draft.answers.get(member.name) if state == "succeeded" else None
    if state == "succeeded" and (
        report is None
        or not report.answers(for_environment(draft.federation, current, environment.name))
    ):
        state, message = "failed", "answered something else than it was asked"
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


def _state(member: MemberStatus, order: PostedOrder) -> tuple[JobState, str]:
    if member.order != order:
        return "queued", "its order is on its way"
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
    """Who did not take an order in time is not waited for again until a letter comes."""
    away = [
        m.model_copy(update={"state": "Away"})
        if m.name == environment.name and m.state == "Present" and not m.word
        else m
        for m in status.members
    ]
    if away == status.members:
        return status
    why = f"{environment.name} did not take its order; it is asked again once it writes"
    draft.tell("MemberAway", why, warning=True)
    return status.model_copy(update={"members": away})


# -- orders of silos --------------------------------------------------------------------------


def give_up(spec: FederationSpec, status: FederationStatus) -> FederationStatus:
    """Silos that no letter reaches count as reached: nobody waits for a bucket that refuses."""
    owed = [orders.owed(spec, status, member) for member in status.members]
    members = [
        member.model_copy(update={"order": order}) if order and order.kind == "rest" else member
        for member, order in zip(status.members, owed, strict=True)
    ]
    return status.model_copy(update={"members": members})


def send(draft: Draft, status: FederationStatus) -> FederationStatus:
    """Ask for a courier where letters are owed or awaited; none runs otherwise."""
    task = _task(draft, status)
    if task is None:
        return status
    courier = couriers.with_task(status.courier, fingerprint(task.to_json()))
    if courier != status.courier:  # stored before it is made: a name never has two tasks
        draft.wake(draft.now)
        return status.model_copy(update={"courier": courier})
    draft.ask(
        JobRequest(
            name=_name(draft, courier),
            role="courier",
            round=status.round,
            environment="",
            attempt=courier.attempt,
            assignment=task,
        ),
        courier.not_before,
    )
    return status


def _name(draft: Draft, courier: CourierStatus) -> str:
    return job_names.courier_job(draft.federation.metadata.name, courier.attempt)


def _task(draft: Draft, status: FederationStatus) -> CourierTask | None:
    spec, current = draft.federation.spec, status.current
    owed = [orders.owed(spec, status, member) for member in status.members]
    listens = _listens(spec, status)
    if not (any(owed) or listens) or spec.storage is None or spec.exchange is None:
        return None
    boxes = [
        _box(draft, status, member, order)
        for member, order in zip(status.members, owed, strict=True)
    ]
    works = [box.environment for box in boxes if box.work]
    template = None
    if current and works:
        order = for_environment(draft.federation, current, works[0])
        template = without_the_silos_own(order).model_copy(update={"environment": ""})
    rules = current.participation if current else spec.participation
    kept = status.adapter
    return CourierTask(
        federation=draft.federation.metadata.name,
        run=run_of(spec.storage.s3, spec.identity()),
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


def _listens(spec: FederationSpec, status: FederationStatus) -> bool:
    """Whether a letter could matter: to open a round, in it, or for who comes back in the next."""
    current = status.current
    if spec.suspend or status.failed or not status.members:
        return False
    if current is None:
        return status.completed < spec.rounds and bool(presence.waits_for(spec, status))
    if current.kind == "round":
        return current.members is None
    return any(e.remote and e.state not in CONCLUDED for e in current.environments)


def _box(
    draft: Draft, status: FederationStatus, member: MemberStatus, order: PostedOrder | None
) -> Box:
    spec, current = draft.federation.spec, status.current
    known = next((e.member for e in spec.environments if e.name == member.name), None)
    work = None
    if current and order and order.kind == "work":
        own: Assignment = for_environment(draft.federation, current, member.name)
        work = WorkOrder(
            start=own.start, own_start=own.own_start, demonstrations=own.demonstrations
        )
    return Box(
        environment=member.name,
        public_keys=known.public_keys if known else spec.exchange.public_keys,  # type: ignore[union-attr]
        sent=member.sent,
        received=member.received,
        work=work,
        order=order,
    )
