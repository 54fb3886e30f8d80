"""A FederationMember and what belongs to it as one screen: the silo's page, wherever it runs."""

from collections.abc import Iterable
from datetime import datetime

from hansa.api import bucket_keys
from hansa.api.member_status import FederationMember, SiloStatus
from hansa.cli.views.federation import (
    SHOWN_EVENTS,
    RowTable,
    StatusView,
    build_conditions,
    build_events,
)
from hansa.core.durations import format_age, format_clock, format_percent
from hansa.core.errors import InputError
from hansa.kubernetes.client import Data
from hansa.kubernetes.federations import FederationView
from hansa.kubernetes.state import find_condition, get_status, parse_time
from hansa.manifests.load import validate_model
from hansa.members.budget import compute_most_episodes

SHOWN_ROUNDS = 10


def list_members(members: Iterable[Data], now: datetime, *, wide: bool, spaces: bool) -> RowTable:
    """One row per member, the columns of `kubectl get hmem`; all namespaces need their own."""
    titles = ("MEMBER", "FEDERATION", "PHASE", "ROUND", "ORDER", "SUCCESS", "AGE")
    rows = []
    for member in members:
        metadata, state = member["metadata"], get_status(member)
        order = ((state.get("current") or {}).get("order") or {}).get("serial")
        cells = [
            *((metadata.get("namespace", ""),) if spaces else ()),
            metadata["name"],
            str(((member.get("spec") or {}).get("federation") or {}).get("name") or ""),
            state.get("phase") or "Pending",
            str(state.get("round") or 0),
            str(order or ""),
            format_percent(state.get("success")),
            format_age(parse_time(metadata.get("creationTimestamp")), now),
        ]
        working = find_condition(member, "Working")
        more = (working.get("reason") or "", working.get("message") or "") if wide else ()
        rows.append((*cells, *more))
    titles = (*(("NAMESPACE",) if spaces else ()), *titles)
    return RowTable(titles=(*titles, *(("REASON", "MESSAGE") if wide else ())), rows=rows)


def screen(look: FederationView, now: datetime, *, wide: bool = False) -> StatusView:
    """What the silo's owner asks: what it does, what it has used, and what leaves it."""
    silo = _read(look.federation)
    tables = [
        build_conditions(look.federation, now),
        _rounds(silo.status, None if wide else SHOWN_ROUNDS),
        build_events(look, now, None if wide else SHOWN_EVENTS),
    ]
    return StatusView(
        headline=_headline(silo),
        phase=silo.status.phase,
        lines=[*_describe_order(silo, now), *_usage(silo)],
        warnings=[],
        tables=[table for table in tables if table.rows],
        footer=[*_list_places(silo), *(f"not shown: {note}" for note in look.notes)],
    )


def _read(member: Data) -> FederationMember:
    document = {name: value for name, value in member.items() if value is not None}
    try:
        return validate_model(FederationMember, document)
    except InputError as error:
        raise InputError(error.message, hint="-o yaml prints the object as it is") from None


def _headline(silo: FederationMember) -> str:
    ours, state = silo.spec.federation, silo.status
    phase = state.phase if state.conditions else "Pending"
    parts = [phase, f"takes part in {ours.name} as {ours.environment}, in world {silo.spec.world}"]
    if state.success:
        parts.append(f"success {format_percent(state.success)}")
    return f"{silo.metadata.name}: {', '.join(parts)}"


def _describe_order(silo: FederationMember, now: datetime) -> list[str]:
    """What it was last asked for, and how far that is."""
    state, order = silo.status, silo.status.current
    if not state.conditions:
        return ["not observed yet"]
    if order is None:
        return ["no order yet"]
    if order.kind == "rest":
        return [f"order {order.order.serial}: asks for nothing"]
    taken = (
        f" since {format_clock(order.taken_at)} ({format_age(order.taken_at, now)})"
        if order.taken_at
        else ""
    )
    what = f"order {order.order.serial}, {order.role} of round {order.round}: {order.state}{taken}"
    tries = f", attempt {order.attempt}" if order.attempt > 1 else ""
    return [f"{what}{tries}{f': {order.message}' if order.message else ''}"]


def _usage(silo: FederationMember) -> list[str]:
    usage, limits = silo.status.usage, silo.spec.limits
    episodes = compute_most_episodes(silo.spec)
    used = [
        f"{usage.rounds} of {silo.spec.most_rounds:g} rounds",
        f"{usage.episodes} of {episodes} episodes at most",
    ]
    if limits.job_seconds_per_day:
        used.append(f"{usage.day_seconds} of {limits.job_seconds_per_day} s on {usage.day or '-'}")
    return [f"used {', '.join(used)}"]


def _rounds(state: SiloStatus, limit: int | None) -> RowTable:
    chosen = state.rounds[-limit:] if limit else state.rounds
    left = len(state.rounds) - len(chosen)
    return RowTable(
        titles=("ROUND", "AS", "OUTCOME", "SUCCESS", "EXPLORED"),
        rows=[
            (
                str(line.round),
                line.role,
                line.outcome,
                format_percent(line.success),
                f"{line.succeeded}/{line.explored}" if line.explored else "",
            )
            for line in chosen
        ],
        rest=f"and {left} older: -o wide" if left else "",
    )


def _list_places(silo: FederationMember) -> list[str]:
    """All that leaves the silo, and where what stays is."""
    shared, name = silo.spec.storage.s3, silo.spec.federation.environment
    is_masked = silo.spec.agreed.settings.aggregation.secure is not None
    written = [bucket_keys.update_root, bucket_keys.evaluation_root, bucket_keys.answer_root]
    leaves = [
        f"leaves: s3://{shared.bucket}/{root(shared.prefix, name)}"
        for root in (*written, *([bucket_keys.claim_root] if is_masked else []))
    ]
    sealed = silo.spec.experience_key_secret
    own = silo.spec.experience_storage or (silo.spec.storage if sealed else None)
    stays = (
        f"s3://{own.s3.bucket}/{bucket_keys.experience_root(own.s3.prefix, name)}" if own else ""
    )
    stays += ", sealed" if sealed else ""
    return [*leaves, f"stays:  {stays or 'in the store of this folder'}"]
