"""The next order of each remote silo: to work, or to rest."""

from typing import Literal

from hansa.api.constants import CONCLUDED
from hansa.api.exchange import MemberStatus, PostedOrder
from hansa.api.spec import FederationSpec
from hansa.api.status import CurrentRound, FederationStatus
from hansa.plan.policy import apart

REMOVED = PostedOrder(kind="rest", why="removed")


def build_work_order(current: CurrentRound) -> PostedOrder:
    """The order for a silo that takes part in a round, or evaluates the last adapter."""
    role: Literal["client", "evaluate"] = "client" if current.kind == "round" else "evaluate"
    epoch = current.masking.epoch if current.masking else 0
    return PostedOrder(kind="work", role=role, round=current.round, epoch=epoch)


def is_at_work(member: MemberStatus) -> bool:
    """Whether its last order is to work."""
    return member.order is not None and member.order.kind == "work"


def is_forgotten(member: MemberStatus) -> bool:
    """Whether a removed silo needs no letter: it never wrote, has left, or has got its letter.

    One that wrote may have an unknown order, since its last courier was not waited for.
    """
    is_there = member.state in ("Present", "Away") and member.order != REMOVED
    return not is_at_work(member) and not is_there


def find_owed(
    spec: FederationSpec, status: FederationStatus, member: MemberStatus
) -> PostedOrder | None:
    """The letter that a silo should have next; none: it has what it needs."""
    wanted = _find_wanted(spec, status, member)
    if wanted is None or (member.order == wanted and member.word != "answer"):
        return None
    return wanted


def _find_wanted(
    spec: FederationSpec, status: FederationStatus, member: MemberStatus
) -> PostedOrder | None:
    resting = _find_rest(spec, status, member.name)
    if resting:
        needs_it = not is_forgotten(member) if resting == REMOVED else is_at_work(member)
        return resting if needs_it else None
    current = status.current
    if status.failed:
        return None
    if member.state == "Away" and is_at_work(
        member
    ):  # a silo that returns does no work for a closed round
        return PostedOrder(kind="rest", why="missed")
    if current is None:
        return None
    line = next((e for e in current.environments if e.name == member.name), None)
    return build_work_order(current) if line and line.state not in CONCLUDED else None


def _find_rest(spec: FederationSpec, status: FederationStatus, name: str) -> PostedOrder | None:
    if all(e.name != name for e in spec.environments):
        return REMOVED
    if spec.suspend:
        return PostedOrder(kind="rest", why="suspended")
    if status.current is None and not status.failed and _is_finished(spec, status):
        return PostedOrder(kind="rest", why="finished")
    return None


def _is_finished(spec: FederationSpec, status: FederationStatus) -> bool:
    newest = apart.find_newest_round(status, spec.aggregation.strategy)
    return status.completed >= spec.rounds and status.evaluated >= newest


def is_closing(spec: FederationSpec, status: FederationStatus) -> bool:
    """Whether a federation that stops has silos that do not know it yet."""
    if not spec.suspend and (status.current or status.failed):
        return False
    letters = [find_owed(spec, status, member) for member in status.members]
    return any(letter and letter.why not in ("", "missed") for letter in letters)
