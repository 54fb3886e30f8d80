"""From an order in the bucket to the assignment that a silo's client carries out.

The client does not trust its courier: it reads the order itself, verifies it, and checks it against
the owner's limits before anything is loaded. What an order leaves open, the silo's spec sets.
"""

from pydantic import ValidationError

from hansa.api.assignment import ENV_ORDER, Assignment
from hansa.api.letters import (
    FAULTS,
    ORDERS,
    SILO_FIELDS,
    LetterLog,
    Reference,
    Work,
    strip_silo_fields,
)
from hansa.api.member_spec import MemberSpec
from hansa.api.silo_assignment import SiloClientAssignment
from hansa.core.errors import OrderRefused, PermanentError, Untrusted
from hansa.members.limits import judge
from hansa.members.mailbox import Mailbox, NoEntry
from hansa.store.base import ObjectStore
from hansa.validation.messages import describe_first_misfit


def load_ordered_assignment(text: str) -> Assignment:
    """The assignment of the order that this process was given."""
    from hansa.store.s3 import S3Store  # a fork has it already

    try:
        work = SiloClientAssignment.model_validate_json(text)
    except ValidationError as error:
        raise PermanentError(f"{ENV_ORDER}: {describe_first_misfit(error)}") from None
    return build_assignment(work, S3Store(work.member.storage.s3))


def build_assignment(work: SiloClientAssignment, store: ObjectStore) -> Assignment:
    """The order as an assignment, whole; Refused or Untrusted where it is not to be carried out."""
    order = _read_order(work.member, work.order, store)
    refusal = judge(order.assignment, work.member, work.usage)
    if refusal:
        raise OrderRefused(
            f"this silo's limits do not allow the order: {refusal}; nothing was loaded"
        )
    return complete(order.assignment, work.member, work.answered)


def complete(order: Assignment, member: MemberSpec, answered: str = "") -> Assignment:
    """An order with what is the silo's own: from here on it is an assignment like any other."""
    private = member.experience_storage
    own = {name: getattr(member, name) for name in SILO_FIELDS if name in MemberSpec.model_fields}
    own |= {"experience_storage": private.s3 if private else None, "own_manifest": answered}
    return strip_silo_fields(order).model_copy(update={**own, "storage": member.storage.s3})


def open_log(member: MemberSpec, log: LetterLog, store: ObjectStore) -> Mailbox:
    """One of a silo's two logs: the coordinator writes the orders, the silo the answers."""
    party = member.federation if log is ORDERS else member
    return Mailbox(
        store=store,
        prefix=member.storage.s3.prefix,
        log=log,
        run=member.federation.run,
        environment=member.federation.environment,
        trusted=tuple(party.public_keys),
    )


def _read_order(member: MemberSpec, order: Reference, store: ObjectStore) -> Work:
    entry = open_log(member, ORDERS, store).look(order.serial)
    where = f"order {order.serial}"
    if entry is None:
        raise Untrusted(f"{where}: it was removed from the bucket")
    if isinstance(entry, NoEntry):
        raise Untrusted(f"{where}: {FAULTS[entry.fault]}")
    if entry.digest != order.digest or not isinstance(entry.letter, Work):
        raise Untrusted(f"{where}: it is another letter than the one that was taken on")
    return entry.letter
