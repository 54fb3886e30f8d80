"""All letters between the coordinator and one silo, as evidence: who signed what, and when.

Limits: the bucket's owner can take the newest letters away, and then they are not counted.
Letters of a key that the manifest no longer names count as refused.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from hansa.api.assignment import ClientReport
from hansa.api.bucket_documents import AuditHead
from hansa.api.letters import ANSWERS, ORDERS, Answer, Fault, LetterLog, Rest, Work, compute_run_id
from hansa.api.spec import FederationSpec
from hansa.core.errors import Denied
from hansa.members.mailbox import LogEntry, Mailbox, NoEntry
from hansa.store.base import ObjectStore


@dataclass(frozen=True, kw_only=True)
class Vouched:
    """What a signed order says of the audit log."""

    serial: int
    """The order."""
    head: AuditHead | None
    """Newest entry when it was written; None: there was none."""
    before: float | None
    """Every entry of a round before this one was written by then; None: it does not say."""


@dataclass(kw_only=True)
class Correspondence:
    """The letters of one silo."""

    environment: str
    """The silo."""
    orders: int = 0
    """Orders that the coordinator has signed."""
    answers: int = 0
    """Letters that the silo has signed, of all kinds."""
    refused: Counter[Fault] = field(default_factory=Counter)
    """Objects in both logs that are no such letters, by what is wrong; breaks of the chain, too."""
    vouched: list[Vouched] = field(default_factory=list)
    """What orders say of the audit log, oldest first."""
    updates: dict[int, set[str]] = field(default_factory=dict)
    """Digests of the update manifests that the silo has signed answers for, by round."""
    has_unknown_keys: bool = False
    """Whether answers are signed by a key that the manifest does not name, or no longer."""
    denied: str = ""
    """Why the letters cannot be read."""


def open_mailbox(
    spec: FederationSpec, store: ObjectStore, name: str, log: LetterLog, trusted: Iterable[str]
) -> Mailbox:
    """One log of a silo, as a federation's manifest places it."""
    place = spec.require_s3()
    return Mailbox(
        store=store,
        prefix=place.prefix,
        log=log,
        run=compute_run_id(place, spec.identity()),
        environment=name,
        trusted=tuple(trusted),
    )


def walk_objects(box: Mailbox) -> Iterator[tuple[LogEntry | NoEntry, bool]]:
    """All objects of a log up to its end, and whether each follows the letter before it."""
    serial, last = 1, ""
    while entry := box.look(serial):
        if isinstance(entry, NoEntry):
            yield entry, False
        else:
            yield entry, entry.letter.previous == last
            last = entry.digest
        serial += 1


def read_correspondence(spec: FederationSpec, store: ObjectStore, name: str) -> Correspondence:
    """The letters of one silo, each verified by the keys that the manifest names."""
    member = spec.environment(name).member
    made = Correspondence(environment=name)
    if member is None or spec.exchange is None:
        return made
    try:
        for entry in _read_verified(
            made, open_mailbox(spec, store, name, ORDERS, spec.exchange.public_keys)
        ):
            made.orders += 1
            if isinstance(entry.letter, Work | Rest):
                made.vouched.append(_build_vouched(entry.serial, entry.letter))
        for entry in _read_verified(
            made, open_mailbox(spec, store, name, ANSWERS, member.public_keys)
        ):
            made.answers += 1
            letter = entry.letter
            if isinstance(letter, Answer) and isinstance(letter.report, ClientReport):
                made.updates.setdefault(letter.report.round, set()).add(letter.report.manifest)
    except Denied as error:
        made.denied = error.message
    return made


def _read_verified(made: Correspondence, box: Mailbox) -> Iterator[LogEntry]:
    for entry, follows in walk_objects(box):
        if isinstance(entry, NoEntry):
            made.refused[entry.fault] += 1
            made.has_unknown_keys |= box.log is ANSWERS and entry.fault == "unknown-key"
            continue
        if not follows:
            made.refused["chain"] += 1
        yield entry


def _build_vouched(serial: int, order: Work | Rest) -> Vouched:
    """Work for a round comes after all before it; an order to rest may come within a round."""
    before: float | None = None
    if isinstance(order, Work):
        before = order.assignment.round + (order.assignment.role == "evaluate")
    elif order.why == "finished":
        before = float("inf")
    return Vouched(serial=serial, head=order.audit, before=before)
