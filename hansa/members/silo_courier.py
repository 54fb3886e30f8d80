"""A silo's courier: posts its letters, listens for a newer order, judges it, and exits.

An answer is signed only after the objects that it names were found in the bucket unchanged.
"""

import time
from collections import Counter
from collections.abc import Callable

from hansa.api import bucket_keys, letters
from hansa.api.assignment import ClientReport
from hansa.api.bucket_documents import sha256
from hansa.api.exchange import Cursor
from hansa.api.letters import ANSWERS, ORDERS, Reference, Rest, Work
from hansa.api.member_spec import MemberSpec
from hansa.api.member_status import PendingLetter
from hansa.api.silo_assignment import (
    LONGEST_MESSAGE,
    NewestOrder,
    SiloCourierAssignment,
    SiloReport,
)
from hansa.core.errors import HansaError, LogReplaced, PermanentError, Untrusted
from hansa.crypto.dsse import SigningKey
from hansa.members.budget import count_episodes, identify_work
from hansa.members.courier import LONGEST_SECONDS
from hansa.members.limits import judge
from hansa.members.mailbox import LogEntry, Mailbox
from hansa.members.order import open_log
from hansa.plan import member_trouble as trouble
from hansa.store.base import ObjectStore
from hansa.version import __version__


def carry(
    task: SiloCourierAssignment,
    store: ObjectStore,
    key: SigningKey,
    *,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> SiloReport:
    """Post pending letters; without any, listen until a newer order comes or an hour has passed."""
    try:
        return _carry(task, store, key, sleep, clock)
    except HansaError as error:
        error.report = trouble.build_report(error)  # type: ignore[attr-defined]  # which programs write as well
        raise


def _carry(
    task: SiloCourierAssignment,
    store: ObjectStore,
    key: SigningKey,
    sleep: Callable[[float], None],
    clock: Callable[[], float],
) -> SiloReport:
    log = open_log(task.member, ORDERS, store)
    _check_log(log, task.received, task.order)
    if task.post:
        written = _post_all(task, store, key)
        read = _read_newest(task, log)
        faults = Counter(dict(written.faults)) + Counter(dict(read.faults))
        kept = {"sent": written.sent, "posted": written.posted, "ahead": written.ahead}
        return read.model_copy(update={**kept, "faults": sorted(faults.items())})
    until = clock() + LONGEST_SECONDS
    while (report := _read_newest(task, log)) == SiloReport() and clock() < until:
        sleep(task.member.poll_seconds)
    return report


def _check_log(log: Mailbox, received: Cursor, order: Reference | None) -> None:
    """Orders that were read must still be there: otherwise the bucket was recreated or changed."""
    gone = 0
    if order and not log.holds(order.serial, order.digest):
        gone = order.serial
    elif received.serial > (order.serial if order else 0) and log.look(received.serial) is None:
        gone = received.serial  # behind it only garbage was read, which must lie there as well
    if gone:
        raise LogReplaced(
            f"order {gone}: it is gone from the bucket or is another one now, "
            "so no order is carried out",
            hint="ask the coordinator; if the bucket was recreated, recreate this member too",
        )


def _read_newest(task: SiloCourierAssignment, log: Mailbox) -> SiloReport:
    """The newest order; older ones are for rounds that are closed."""
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
        newest=_build_newest(task, newest) if newest else None,
        faults=sorted(faults.items()),
    )


def _build_newest(task: SiloCourierAssignment, entry: LogEntry) -> NewestOrder:
    order = Reference(serial=entry.serial, digest=entry.digest)
    letter = entry.letter
    if isinstance(letter, Rest):
        return NewestOrder(order=order, kind="rest", why=letter.why)
    if not isinstance(letter, Work):
        raise PermanentError(f"order {entry.serial}: got a letter of another kind")
    assignment = letter.assignment
    refusal = judge(assignment, task.member, task.usage)
    return NewestOrder(
        order=order,
        kind="work",
        role="client" if assignment.role == "client" else "evaluate",
        round=assignment.round,
        episodes=count_episodes(assignment),
        work=identify_work(assignment),
        round_seconds=letter.round_seconds,
        veto=refusal.code if refusal else None,
        path=refusal.path if refusal else "",
        message=str(refusal)[:LONGEST_MESSAGE] if refusal else "",
    )


# -- posting ----------------------------------------------------------------------------------


def _post_all(task: SiloCourierAssignment, store: ObjectStore, key: SigningKey) -> SiloReport:
    member = task.member
    log = open_log(member, ANSWERS, store)
    cursor = task.sent
    faults: Counter[str] = Counter()
    count, ahead = 0, False
    for letter in task.post:
        posted = log.post(_build_letter(member, letter, store), cursor, key)
        faults.update(posted.faults)
        cursor, ahead = posted.cursor, ahead or posted.ahead
        if not posted.done:
            break
        count += 1
    return SiloReport(sent=cursor, posted=count, ahead=ahead, faults=sorted(faults.items()))


def _build_letter(member: MemberSpec, letter: PendingLetter, store: ObjectStore) -> letters.Letter:
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
        fields |= {"report": letter.report, "evaluations": _collect_evidence(member, letter, store)}
    made: letters.Letter = ANSWERS.kinds.validate_python(fields)
    return made


def _collect_evidence(
    member: MemberSpec, letter: PendingLetter, store: ObjectStore
) -> dict[str, str]:
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
        own = bucket_keys.evaluation(prefix, name, report.round, own=True)
        digests[f"{report.round:05d}-own"] = sha256(store.get(own))
    return digests
