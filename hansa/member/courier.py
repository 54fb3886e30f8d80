"""A silo's courier: posts its letters, listens for a newer order, judges it, and ends.

An answer is signed only after what it speaks of was seen in the bucket with the same digests.
"""

import time
from collections import Counter
from collections.abc import Callable

from hansa import __version__, keys
from hansa.assignment import ClientReport
from hansa.errors import PermanentError, Untrusted
from hansa.exchange import letters
from hansa.exchange.courier import LONGEST_SECONDS
from hansa.exchange.envelope import SigningKey
from hansa.exchange.letters import ANSWERS, Reference, Rest, Work
from hansa.exchange.mailbox import Entry, Mailbox
from hansa.manifest import sha256
from hansa.member.limits import episodes, judge
from hansa.member.order import orders_of
from hansa.member.spec import MemberSpec
from hansa.member.status import Letter
from hansa.member.tasks import NewestOrder, SiloReport, SiloTask, used
from hansa.members import Head
from hansa.store.base import ObjectStore

LONGEST_MESSAGE = 300


def carry(
    task: SiloTask,
    store: ObjectStore,
    key: SigningKey,
    *,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> SiloReport:
    """Post what is to be posted; else listen until there is a newer order or an hour is over."""
    log = orders_of(task.member, store)
    _check_log(log, task.received)
    if task.post:
        sent, count, faults = _post_all(task, store, key)
        read = _read(task, log)
        faults.update(dict(read.faults))
        return read.model_copy(update={"sent": sent, "posted": count, "faults": _faults(faults)})
    until = clock() + LONGEST_SECONDS
    while (report := _read(task, log)) == SiloReport() and clock() < until:
        sleep(task.member.poll_seconds)
    return report


def _check_log(log: Mailbox, received: Head) -> None:
    """What was read once must still be there: else somebody made the bucket anew, or lies."""
    if not received.serial:
        return
    entry = log.look(received.serial)
    if entry is None or (isinstance(entry, Entry) and entry.digest != received.digest):
        raise Untrusted(
            f"order {received.serial}: it is gone from the bucket or is another one now, "
            "so nothing is done any more",
            hint="ask the coordinator; if the bucket was made anew, make this member anew, too",
        )


def _read(task: SiloTask, log: Mailbox) -> SiloReport:
    """The newest order: whoever was away long does not work for rounds that are closed."""
    cursor = start = task.received
    newest: Entry | None = None
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
        faults=_faults(faults),
    )


def _faults(counted: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counted.items())


def _newest(task: SiloTask, entry: Entry) -> NewestOrder:
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


def _post_all(
    task: SiloTask, store: ObjectStore, key: SigningKey
) -> tuple[Head, int, Counter[str]]:
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
    count = 0
    for letter in task.post:
        posted = log.post(_letter(member, letter, store), cursor, key)
        faults.update(posted.faults)
        cursor = posted.cursor
        if not posted.done:
            break
        count += 1
    return cursor, count, faults


def _letter(member: MemberSpec, letter: Letter, store: ObjectStore) -> letters.Letter:
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


def _evidence(member: MemberSpec, letter: Letter, store: ObjectStore) -> dict[str, str]:
    """Digests of the evaluations that an answer tells of, once its update was seen."""
    prefix, name = member.storage.s3.prefix, member.federation.environment
    report = letter.report
    if isinstance(report, ClientReport):
        key = f"{keys.update_folder(prefix, name, report.round)}{keys.MANIFEST}"
        if sha256(store.get(key)) != report.manifest:
            raise Untrusted(f"{key}: its digest is not the one that the client reports")
    digests = {}
    if report and report.evaluation:
        at = report.evaluation.round
        digests[f"{at:05d}"] = sha256(store.get(keys.evaluation(prefix, name, at)))
    if isinstance(report, ClientReport) and report.own:
        own = keys.own_evaluation(prefix, name, report.round)
        digests[f"{report.round:05d}-own"] = sha256(store.get(own))
    return digests
