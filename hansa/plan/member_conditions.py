"""A silo's phase and conditions, as they follow from the rest of its status."""

from collections.abc import Callable
from datetime import datetime
from typing import Literal

from hansa.api.constants import MemberConditionType, MemberReason, Trouble
from hansa.api.member_status import (
    FederationMember,
    SiloCondition,
    SiloOrder,
    SiloPhase,
    SiloStatus,
)
from hansa.api.status import replace_conditions

REMEDIES: dict[Trouble, str] = {
    "Unreachable": "it is retried",
    "Denied": "`hansa policy` prints what the bucket's owner has to grant",
    "ClockSkewed": "set the clock of the machine that this runs on",
    "LogReplaced": "ask the coordinator; if the bucket was recreated, recreate this member too",
    "Untrusted": "compare publicKeys with the coordinator",
    "CourierFailed": "it is retried; `hansa logs --member NAME -e courier` shows its log",
}
"""What to do about each trouble with the exchange."""

_Verdict = tuple[Literal["True", "False", "Unknown"], MemberReason, str]


def conclude(silo: FederationMember, status: SiloStatus, now: datetime) -> SiloStatus:
    """The status with everything that follows from its other fields."""
    current, generation = status.current, silo.metadata.generation
    rows = [(type_, *look(silo, status)) for type_, look in _LOOKS.items()]
    conditions = replace_conditions(
        status.conditions, SiloCondition, rows, generation=generation, now=now
    )
    return status.model_copy(
        update={
            "phase": _find_phase(silo, status),
            "round": current.round if current and current.kind == "work" else status.round,
            "observed_generation": generation,
            "conditions": conditions,
        }
    )


def _find_phase(silo: FederationMember, status: SiloStatus) -> SiloPhase:
    current = status.current
    if silo.spec.suspend:
        return "Suspended"
    if silo.spec.leave:
        return "Working" if status.owed else "Left"
    if status.message:
        return "Failed"
    if current is None:
        return "Idle"
    phases: dict[str, SiloPhase] = {
        "Waiting": "Waiting",
        "Working": "Waiting" if current.waits_for else "Working",
        "Refused": "Refusing",
    }
    return phases.get(current.state, "Idle")


def _judge_accepted(silo: FederationMember, status: SiloStatus) -> _Verdict:
    """Always true here: the operator reports objects that cannot be read."""
    return "True", "Valid", ""


def _judge_allowed(silo: FederationMember, status: SiloStatus) -> _Verdict:
    current = status.current
    if current is None or current.kind == "rest":
        return "Unknown", "NoOrder", "there is no order to judge"
    serial = current.order.serial
    if current.veto:
        return "False", "Refused", f"order {serial} refused: {current.message}"
    return "True", "WithinLimits", f"order {serial} is within the owner's limits"


def _judge_connected(silo: FederationMember, status: SiloStatus) -> _Verdict:
    if stopped := _find_stop(silo, status):
        return "Unknown", *stopped
    if status.trouble:
        why = (status.courier.message if status.courier else "") or status.message
        return "False", status.trouble, f"{why}; {REMEDIES[status.trouble]}"
    slow = status.courier.message if status.courier else ""
    if not status.sent.serial and not status.received.serial:
        return "Unknown", "NotYet", slow or "no letter was posted or read yet"
    read, posted = status.received.serial, status.sent.serial
    said = f"orders are read up to {read}, letters are posted up to {posted}"
    return "True", "Listening", f"{said}; the next courier: {slow}" if slow else said


def _judge_working(silo: FederationMember, status: SiloStatus) -> _Verdict:
    current = status.current
    if stopped := _find_stop(silo, status):
        return "False", *stopped
    if status.trouble == "LogReplaced":
        return "False", "LogReplaced", "the log of orders is gone, so no order is carried out"
    if current is None:
        return "False", "NoOrder", "waits for its first order"
    if current.state == "Working" and not current.waits_for:
        return "True", "Working", _describe_order(current)
    reasons: dict[str, MemberReason] = {
        "Resting": "Resting",
        "Refused": "Refused",
        "Done": "Answered",
        "Failed": "JobFailed",
    }
    return "False", reasons.get(current.state, "Waiting"), _describe_order(current)


def _find_stop(silo: FederationMember, status: SiloStatus) -> tuple[MemberReason, str] | None:
    if silo.spec.suspend:
        return "Suspended", "set spec.suspend to false to continue"
    if silo.spec.leave and not status.owed:
        return "Left", "takes no further part; set spec.leave to false to come back"
    return None


def _describe_order(order: SiloOrder) -> str:
    """An order in words, with its message."""
    if order.kind == "rest":
        return f"order {order.order.serial} asks for nothing"
    what = f"order {order.order.serial}, {order.role} of round {order.round}"
    return f"{what}: {order.message}" if order.message else what


_LOOKS: dict[MemberConditionType, Callable[[FederationMember, SiloStatus], _Verdict]] = {
    "Accepted": _judge_accepted,
    "Allowed": _judge_allowed,
    "Connected": _judge_connected,
    "Working": _judge_working,
}
