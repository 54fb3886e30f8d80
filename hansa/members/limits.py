"""What a silo's owner allows: each order is judged against what was agreed and what limits say.

Pure, and default-deny: a field that no limit names must be as agreed, and a field that the
agreement does not know is refused. The sentence stays in the silo; the coordinator learns a code
and the field's path.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hansa.api.assignment import Assignment
from hansa.api.letters import SILO_FIELDS, Veto
from hansa.api.member_spec import Limits, MemberSpec
from hansa.api.member_status import SiloUsage
from hansa.api.ownership import get_alias
from hansa.api.spec import Evaluation, differences
from hansa.validation.messages import describe_value

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
        or _check_budget(order, member, usage)
    )


def count_episodes(order: Assignment) -> int:
    """The most episodes that an order can ask for: explored, and evaluated on the way."""
    settings = order.settings
    explored = settings.exploration.tasks_per_round * settings.exploration.samples_per_task
    measured = _count_measured(settings.evaluation)
    probed = sum(probe.episodes for probe in settings.probes or ())
    if order.role == "evaluate":
        alone = order.alone_rounds * explored + (measured if order.alone_rounds else 0)
        on = order.round if settings.personalization in ("finetune", "best") else 0
        return measured + probed + alone + on * (explored + measured)
    own = measured if settings.evaluation.own_update else 0
    return explored + measured + own + probed


def _count_measured(evaluation: Evaluation) -> int:
    tasks = evaluation.tasks + (evaluation.validation_tasks or 0)
    greedy = evaluation.tasks if evaluation.greedy else 0
    return tasks * evaluation.samples_per_task + greedy


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
    agreed = member.agreed.to_json()
    del agreed["rounds"]  # counted, not compared: no order has it
    wanted: dict[str, Any] = {
        "seed": order.seed,
        "model": order.model.to_json(),
        "adapter": order.adapter.to_json(),
        "settings": order.settings.to_json(),
    }
    for each in (agreed, wanted):  # read by nobody: a member has its own file, or an expert
        each["settings"]["experience"].pop("demonstrationsFrom", None)
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
        if not _is_named(path, ours, limits) or _is_masked(path, theirs):
            came, fits = (
                _ABSENT if each is None else describe_value(each) for each in (ours, theirs)
            )
            return OrderRefusal(code="differs", path=_shorten_path(path), came=came, fits=fits)
    return None


def _is_masked(path: str, agreed: Any) -> bool:
    """Whether masks that were agreed on would change: without them the update would be readable,
    so that a limit on all of aggregation says nothing of them."""
    return path.startswith("settings.aggregation.secure") and agreed is not None


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
    if any(path == free or path.startswith(f"{free}.") for free in limits.free):
        return True
    return ours is not None and (path in limits.most or path in limits.only)


def _check_budget(order: Assignment, member: MemberSpec, usage: SiloUsage) -> OrderRefusal | None:
    rounds, limits = member.most_rounds, member.limits
    if order.role == "client" and order.round <= usage.newest:
        return None
    total = usage.episodes + count_episodes(order)
    budgets = (
        ("rounds", usage.rounds + 1 if order.role == "client" else 0, "", rounds, f"{rounds:g}"),
        ("aloneRounds", order.alone_rounds, " rounds alone", rounds, f"{rounds:g}"),
        ("episodes", total, "", limits.episodes or total, f"{limits.episodes}"),
    )
    for path, came, unit, most, fits in budgets:
        if came > most:
            asked = f"{came}{unit}"
            return OrderRefusal(code="budget", path=path, came=asked, fits=f"at most {fits}")
    return None
