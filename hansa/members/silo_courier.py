"""A silo's courier: posts its letters, listens for a newer order, judges it, and ends.

An answer is signed only after what it speaks of was seen in the bucket with the same digests.
"""

import time
from collections import Counter
from collections.abc import Callable

from hansa.api import bucket_keys, letters
from hansa.api.assignment import ClientReport
from hansa.api.bucket_documents import sha256
from hansa.api.exchange import Cursor
from hansa.api.letters import ANSWERS, Reference, Rest, Work
from hansa.api.member_spec import MemberSpec
from hansa.api.member_status import PendingLetter
from hansa.api.silo_assignment import LONGEST_MESSAGE, NewestOrder, SiloReport, SiloTask
from hansa.core.errors import HansaError, LogReplaced, PermanentError, Untrusted
from hansa.crypto.dsse import SigningKey
from hansa.members.courier import LONGEST_SECONDS
from hansa.members.limits import episodes, judge, used
from hansa.members.mailbox import LogEntry, Mailbox
from hansa.members.order import orders_of
from hansa.plan import member_trouble as trouble
from hansa.store.base import ObjectStore
from hansa.version import __version__


def carry(
    task: SiloTask,
    store: ObjectStore,
    key: SigningKey,
    *,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> SiloReport:
    """Post what is to be posted; else listen until there is a newer order or an hour is over."""
    try:
        return _carry(task, store, key, sleep, clock)
    except HansaError as error:
        error.report = trouble.report(error)  # type: ignore[attr-defined]  # which programs write as well
        raise


def _carry(
    task: SiloTask,
    store: ObjectStore,
    key: SigningKey,
    sleep: Callable[[float], None],
    clock: Callable[[], float],
) -> SiloReport:
    log = orders_of(task.member, store)
    _check_log(log, task.received, task.order)
    if task.post:
        written = _post_all(task, store, key)
        read = _read(task, log)
        faults = Counter(dict(written.faults)) + Counter(dict(read.faults))
        kept = written.model_dump(include={"sent", "posted", "ahead"})
        return read.model_copy(update={**kept, "sent": written.sent, "faults": _faults(faults)})
    until = clock() + LONGEST_SECONDS
    while (report := _read(task, log)) == SiloReport() and clock() < until:
        sleep(task.member.poll_seconds)
    return report


def _check_log(log: Mailbox, received: Cursor, order: Reference | None) -> None:
    """What was read once must still be there: else somebody made the bucket anew, or lies."""
    gone = 0
    if order and not log.holds(order.serial, order.digest):
        gone = order.serial
    elif received.serial > (order.serial if order else 0) and log.look(received.serial) is None:
        gone = received.serial  # behind it only garbage was read, which must lie there as well
    if gone:
        raise LogReplaced(
            f"order {gone}: it is gone from the bucket or is another one now, "
            "so nothing is done any more",
            hint="ask the coordinator; if the bucket was made anew, make this member anew, too",
        )


def _read(task: SiloTask, log: Mailbox) -> SiloReport:
    """The newest order: whoever was away long does not work for rounds that are closed."""
    cursor = start = task.received
    newest: LogEntry | None = None
    faults: Counter[str] = Counter()
    while True:
        reading = log.read(cursor)
        faults.update(reading.faults)
        newest = reading.entries[-1] if reading.entries else newest
        cursor = reading.cursor
        if not reading.more or reading.faults["flooded"]:
            break
    if cursor == start:
        return SiloReport()
    return SiloReport(
        received=cursor,
        newest=_newest(task, newest) if newest else None,
        missed=newest is not None and getattr(newest.letter, "why", "") == "missed",
        faults=_faults(faults),
    )


def _faults(counted: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counted.items())


def _newest(task: SiloTask, entry: LogEntry) -> NewestOrder:
    order = Reference(serial=entry.serial, digest=entry.digest)
    letter = entry.letter
    if isinstance(letter, Rest):
        return NewestOrder(order=order, kind="rest")
    if not isinstance(letter, Work):
        raise PermanentError(f"order {entry.serial}: got a letter of another kind")
    assignment = letter.assignment
    refusal = judge(assignment, task.member, used(task.usage))
    return NewestOrder(
        order=order,
        kind="work",
        role="client" if assignment.role == "client" else "evaluate",
        round=assignment.round,
        episodes=episodes(assignment),
        round_seconds=letter.round_seconds,
        veto=refusal.code if refusal else None,
        path=refusal.path if refusal else "",
        message=str(refusal)[:LONGEST_MESSAGE] if refusal else "",
    )


# -- posting ----------------------------------------------------------------------------------


def _post_all(task: SiloTask, store: ObjectStore, key: SigningKey) -> SiloReport:
    member = task.member
    log = Mailbox(
        store=store,
        prefix=member.storage.s3.prefix,
        log=ANSWERS,
        run=member.federation.run,
        environment=member.federation.environment,
        trusted=tuple(member.public_keys),
    )
    cursor = task.sent
    faults: Counter[str] = Counter()
    count, ahead = 0, False
    for letter in task.post:
        posted = log.post(_letter(member, letter, store), cursor, key)
        faults.update(posted.faults)
        cursor, ahead = posted.cursor, ahead or posted.ahead
        if not posted.done:
            break
        count += 1
    return SiloReport(sent=cursor, posted=count, ahead=ahead, faults=_faults(faults))


def _letter(member: MemberSpec, letter: PendingLetter, store: ObjectStore) -> letters.Letter:
    """The whole letter; an answer with the digests of what it speaks of, read from the bucket."""
    fields = letter.model_dump(exclude_defaults=True, exclude={"report"})
    fields |= {"run": member.federation.run, "environment": member.federation.environment}
    if letter.kind == "hello":
        fields["program"] = __version__
    if letter.kind == "waits":
        fields["seconds"] = letter.seconds
    if letter.kind == "failed":
        fields |= {"exit": letter.exit, "attempts": letter.attempts}
    if letter.report:
        fields |= {"report": letter.report, "evaluations": _evidence(member, letter, store)}
    made: letters.Letter = ANSWERS.kinds.validate_python(fields)
    return made


def _evidence(member: MemberSpec, letter: PendingLetter, store: ObjectStore) -> dict[str, str]:
    """Digests of the evaluations that an answer tells of, once its update was seen."""
    prefix, name = member.storage.s3.prefix, member.federation.environment
    report = letter.report
    if isinstance(report, ClientReport):
        manifest = bucket_keys.masked_manifest(report.epoch or 0)
        key = f"{bucket_keys.update_folder(prefix, name, report.round)}{manifest}"
        if sha256(store.get(key)) != report.manifest:
            raise Untrusted(f"{key}: its digest is not the one that the client reports")
    digests = {}
    if report and report.evaluation:
        at = report.evaluation.round
        digests[f"{at:05d}"] = sha256(store.get(bucket_keys.evaluation(prefix, name, at)))
    if isinstance(report, ClientReport) and report.own:
        own = bucket_keys.own_evaluation(prefix, name, report.round)
        digests[f"{report.round:05d}-own"] = sha256(store.get(own))
    return digests
