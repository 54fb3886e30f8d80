"""The coordinator's courier: posts letters, listens, and exits as soon as there is news.

It is the only program that holds a signing key, and it runs no code of a world or a model. Each run
is safe to repeat: letters have equal bytes, and a lost report is read again from the same places.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hansa.api import letters
from hansa.api.assignment import REPORT_LIMIT
from hansa.api.courier_assignment import (
    CourierAssignment,
    CourierReport,
    LetterFaults,
    LetterSummary,
    LogAdvance,
    SiloMail,
)
from hansa.api.exchange import Cursor
from hansa.api.letters import ANSWERS, ORDERS, LetterLog, Reply, Rest, Work
from hansa.core.errors import PermanentError
from hansa.crypto.dsse import SigningKey, read_key
from hansa.members.mailbox import Mailbox, Reading
from hansa.store.base import ObjectStore

SETTLE_SECONDS = 2.0
"""After a first letter, others are waited for this long: silos often answer together."""
LONGEST_SECONDS = 3600.0
"""A courier without news exits after this; the next one continues."""


def carry(
    task: CourierAssignment,
    store: ObjectStore,
    key: SigningKey,
    *,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> CourierReport:
    """Post pending letters; without any, listen until there is news or an hour has passed."""
    if any(box.order for box in task.boxes):
        return _read_all(task, store, _post_all(task, store, key))
    if not task.listens:
        return CourierReport()
    until = clock() + LONGEST_SECONDS
    while True:
        report = _read_all(task, store, CourierReport())
        if report != CourierReport() or clock() >= until:
            break
        sleep(task.poll_seconds)
    if _is_full(report) or report == CourierReport():
        return report
    sleep(min(SETTLE_SECONDS, task.poll_seconds))
    return _read_all(task, store, CourierReport())  # the same again, and what came since


def load_key(path: str) -> SigningKey:
    """The private key of a file, which a Secret or the user brings."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        why = error.strerror or error
        raise PermanentError(f"signing key: cannot read {path} ({why})") from None
    return read_key(data, f"signing key {path}")


def _open_log(
    task: CourierAssignment, store: ObjectStore, log: LetterLog, box: SiloMail
) -> Mailbox:
    """One of a silo's two logs: ours are the orders, the answers are its own."""
    return Mailbox(
        store=store,
        prefix=task.storage.prefix,
        log=log,
        run=task.run,
        environment=box.environment,
        trusted=tuple(task.public_keys if log is ORDERS else box.public_keys),
    )


# -- posting ----------------------------------------------------------------------------------


def _post_all(task: CourierAssignment, store: ObjectStore, key: SigningKey) -> CourierReport:
    """One letter after another, as many as a report can tell of."""
    report = CourierReport()
    for index, box in enumerate(task.boxes):
        letter = _build_letter(task, box)
        if letter is None:
            continue
        widest = LogAdvance(box=index, serial=2**53, digest="0" * 64, order=box.order, ahead=True)
        if not _fits(_extend(report, posted=[widest])):
            break
        posted = _open_log(task, store, ORDERS, box).post(letter, box.sent, key)
        moved = LogAdvance(
            box=index,
            serial=posted.cursor.serial,
            digest=posted.cursor.digest,
            order=box.order if posted.done else None,
            ahead=posted.ahead or None,
        )
        report = _extend(report, posted=[moved])
    return report


def _build_letter(task: CourierAssignment, box: SiloMail) -> Work | Rest | None:
    if box.order is None:
        return None
    common: dict[str, Any] = {
        "run": task.run,
        "instance": task.instance,
        "environment": box.environment,
    }
    if box.order.why:
        return Rest(**common, why=box.order.why, adapter=task.adapter, audit=task.audit)
    if task.template is None or box.work is None:
        raise PermanentError("template: got nothing, expected what all orders have")
    own = {**dict(box.work), "environment": box.environment}
    return Work(
        **common,
        assignment=task.template.model_copy(update=own),
        start_seconds=task.start_seconds,
        round_seconds=task.round_seconds,
        audit=task.audit,
    )


# -- listening --------------------------------------------------------------------------------


def _read_all(task: CourierAssignment, store: ObjectStore, report: CourierReport) -> CourierReport:
    """What is new in every silo's log, as much as fits a report; none of them waits for another."""
    for index, box in enumerate(task.boxes):
        if _is_full(report):
            break
        log = _open_log(task, store, ANSWERS, box)
        sent = next((m for m in report.posted if m.box == index), None)
        order = Cursor(serial=sent.serial, digest=sent.digest) if sent else box.sent
        report = _read_box(report, index, log, box.received, order)
    return report


def _read_box(
    report: CourierReport, index: int, log: Mailbox, cursor: Cursor, order: Cursor
) -> CourierReport:
    """One letter at a time, until the log ends or the report is full."""
    while True:
        reading = log.read(cursor, most=1, posted=order)
        if reading.cursor == cursor:
            return report
        grown = _add(report, index, reading)
        if not _fits(grown):
            return report  # the next courier begins here
        report, cursor = grown, reading.cursor
        if not reading.more or reading.faults["flooded"]:
            return report


def _add(report: CourierReport, index: int, reading: Reading) -> CourierReport:
    moved = LogAdvance(box=index, serial=reading.cursor.serial, digest=reading.cursor.digest)
    others = [m for m in report.read if m.box != index]
    news = [_build_news(index, entry.letter) for entry in reading.entries]
    faults = [
        LetterFaults(box=index, code=code, count=count)
        for code, count in sorted(reading.faults.items())
    ]
    kept = report.model_copy(update={"read": others})
    return _extend(kept, read=[moved], news=news, faults=faults)


def _build_news(index: int, letter: letters.Letter) -> LetterSummary:
    """What a plan needs of a letter: codes and numbers, and no digest twice."""
    parts = ("kind", "code", "path", "exit", "report")
    fields = {name: getattr(letter, name) for name in parts if hasattr(letter, name)}
    fields["box"] = index
    if isinstance(letter, Reply):
        fields["order"] = letter.order.serial
    return LetterSummary.model_validate(fields)


def _extend(report: CourierReport, **parts: Sequence[object]) -> CourierReport:
    update = {name: [*getattr(report, name), *more] for name, more in parts.items()}
    return report.model_copy(update=update)


def _fits(report: CourierReport, spare: int = 0) -> bool:
    size = len(report.model_dump_json(by_alias=True, exclude_none=True).encode())
    return size <= REPORT_LIMIT - spare


def _is_full(report: CourierReport) -> bool:
    """Whether another answer would no longer fit."""
    return not _fits(report, spare=1000)
