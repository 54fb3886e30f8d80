"""What a silo's owner allows: each order is judged against what was agreed and what limits say.

Pure, and default-deny: a field that no limit names must be as agreed, and a field that the
agreement does not know is refused. The sentence stays in the silo; the coordinator learns a code
and the field's path.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from hansa.api.assignment import Assignment
from hansa.api.letters import SILO_FIELDS, Veto
from hansa.api.member_spec import Limits, MemberSpec
from hansa.api.member_status import SiloUsage
from hansa.api.ownership import Owner, get_alias, list_fields, list_paths
from hansa.api.spec import differences
from hansa.members.budget import compute_most_episodes, count_episodes, identify_work
from hansa.validation.messages import describe_value

_AGREED = [get_alias(Assignment, name) for name in list_fields(Assignment, Owner.AGREEMENT)]
_NOT_AGREED = {
    path for owner in (Owner.SILO, Owner.AGGREGATOR) for path in list_paths(Assignment, owner)
}
"""Paths below these that the silo sets itself, or that no client reads."""
_PROTECTIONS = ("settings.aggregation.secure", "settings.aggregation.sealTo", "settings.privacy")
_ABSENT = "nothing"


@dataclass(frozen=True, kw_only=True)
class OrderRefusal:
    """Why an order is not carried out."""

    code: Veto
    """Machine-readable cause."""
    path: str
    """The order's field."""
    came: str
    """What it asks for."""
    fits: str
    """What is allowed; never sent to others."""

    def __str__(self) -> str:
        return f"{self.path}: got {self.came}, allowed {self.fits}"


def judge(order: Assignment, member: MemberSpec, usage: SiloUsage) -> OrderRefusal | None:
    """The first reason to refuse an order, or None; `usage` is without this order."""
    return (
        _check_place(order, member)
        or _check_settings(order, member)
        or _check_masking(order, member)
        or _check_budget(order, member, usage)
    )


def _check_place(order: Assignment, member: MemberSpec) -> OrderRefusal | None:
    ours, exchange = member.federation, member.storage.s3
    expected: list[tuple[str, Any, Any]] = [
        ("federation", order.federation, ours.name),
        ("environment", order.environment, ours.environment),
        ("storage.bucket", order.storage.bucket, exchange.bucket),
        ("storage.prefix", order.storage.prefix, exchange.prefix),
    ]
    for path, came, fits in expected:
        if came != fits:
            return OrderRefusal(
                code="place", path=path, came=describe_value(came), fits=describe_value(fits)
            )
    if order.role == "aggregator":
        return OrderRefusal(code="place", path="role", came="'aggregator'", fits="client, evaluate")
    for field in SILO_FIELDS:
        if getattr(order, field):
            path = get_alias(Assignment, field)
            return OrderRefusal(code="place", path=path, came="a value", fits="none")
    return None


def _check_settings(order: Assignment, member: MemberSpec) -> OrderRefusal | None:
    agreed, wanted = (_take_agreed(each.to_json()) for each in (member.agreed, order))
    limits = member.limits
    for path, ours in _list_leaves(wanted):
        if path in limits.most and not _is_within(ours, limits.most[path]):
            return OrderRefusal(
                code="most",
                path=path,
                came=describe_value(ours),
                fits=f"at most {limits.most[path]:g}",
            )
        if path in limits.only and ours not in limits.only[path]:
            allowed = " or ".join(describe_value(each) for each in limits.only[path])
            return OrderRefusal(code="only", path=path, came=describe_value(ours), fits=allowed)
    for path, theirs, ours in differences(agreed, wanted):
        if _is_below(path, _NOT_AGREED):
            continue
        if not _is_named(path, ours, limits) or _is_protected(path, theirs):
            came, fits = (
                _ABSENT if each is None else describe_value(each) for each in (ours, theirs)
            )
            return OrderRefusal(code="differs", path=_shorten_path(path), came=came, fits=fits)
    return None


def _check_masking(order: Assignment, member: MemberSpec) -> OrderRefusal | None:
    """Refuse masks that the coordinator could take off: with keys of its own, or of too few."""
    secure, masking = order.settings.aggregation.secure, order.masking
    is_wanted = secure is not None and order.role == "client"
    if is_wanted != (masking is not None):
        came, fits = ("none", "masks") if is_wanted else ("masks", "none")
        return OrderRefusal(code="differs", path="masking", came=came, fits=fits)
    if masking is None or secure is None:
        return None
    known = member.agreed.masking_keys or {}
    for name, key in sorted(masking.peers.items()):
        fits = known.get(name, "no silo of this name")
        if key != fits:
            came = f"{name} with key {key}"
            return OrderRefusal(code="differs", path="masking.peers", came=came, fits=fits)
    least, silos = member.limits.minimum_peers, len(masking.peers)
    if silos < least or order.environment not in masking.peers:
        fits = f"at least {least}, and {order.environment} among them"
        return OrderRefusal(code="only", path="masking.peers", came=f"{silos} silos", fits=fits)
    if masking.epoch and secure.on_dropout == "fail":
        path, came = "masking.epoch", str(masking.epoch)
        return OrderRefusal(code="only", path=path, came=came, fits="0, since onDropout is fail")
    return None


def _take_agreed(document: dict[str, Any]) -> dict[str, Any]:
    """What an order and an agreement have in common."""
    return {name: document[name] for name in _AGREED if name in document}


def _is_protected(path: str, agreed: Any) -> bool:
    """Whether a protection of what leaves the silo would change that was agreed on: a limit on all
    of aggregation says nothing of it."""
    return agreed is not None and _is_below(path, _PROTECTIONS)


def _is_below(path: str, fields: Iterable[str]) -> bool:
    return any(path == field or path.startswith(f"{field}.") for field in fields)


def _shorten_path(path: str) -> str:
    """The path that a letter can name: a plug-in's option keys are free text of a party."""
    head, options, _ = path.partition(".options.")
    return f"{head}.options" if options else path


def _list_leaves(document: dict[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Every field that is not a mapping, by its path."""
    for key, value in sorted(document.items()):
        if isinstance(value, dict):
            yield from _list_leaves(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def _is_within(value: Any, most: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value <= most


def _is_named(path: str, ours: Any, limits: Limits) -> bool:
    """Whether a limit lets this field differ; one that is left out was judged by none."""
    if _is_below(path, limits.free):
        return True
    return ours is not None and (path in limits.most or path in limits.only)


def _check_budget(order: Assignment, member: MemberSpec, usage: SiloUsage) -> OrderRefusal | None:
    rounds, episodes = member.most_rounds, compute_most_episodes(member)
    is_new = order.role == "client" and not usage.has_taken(order.round)
    is_known = identify_work(order) in usage.answered
    alone = rounds if order.settings.evaluation.alone else 0
    budgets = (
        ("rounds", usage.rounds + is_new, "", rounds),
        ("aloneRounds", order.alone_rounds, " rounds alone", alone),
        ("round", max(order.round, order.start.round), "", rounds + usage.failed),
        ("episodes", usage.episodes + (0 if is_known else count_episodes(order)), "", episodes),
    )
    for path, came, unit, most in budgets:
        if came > most:
            asked = f"{came}{unit}"
            return OrderRefusal(code="budget", path=path, came=asked, fits=f"at most {most:g}")
    return None
