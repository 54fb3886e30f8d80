"""A Federation and what belongs to it as lines and rows, ready for any screen: pure functions."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import ValidationError

from hansa.api import constants
from hansa.api.status import FederationStatus
from hansa.cli.views.doubts import CHECK, list_doubts
from hansa.core.durations import format_age, format_clock, format_countdown, format_percent
from hansa.core.text import count
from hansa.kubernetes.client import Data
from hansa.kubernetes.federations import FederationView
from hansa.kubernetes.state import (
    Wait,
    find_condition,
    find_environment_wait,
    find_round_wait,
    get_current,
    get_status,
    parse_time,
)
from hansa.plan.policy import drift, joined

SHOWN_EVENTS = 8
SHOWN_ENVIRONMENTS = 20
ORDER = ("Failed", "Retrying", "Starting", "Queued", "Running", "Waiting", "Empty", "Updated")
"""Environments that need attention come first when not all fit on the screen."""
LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class RowTable:
    """Rows below titles."""

    titles: tuple[str, ...]
    """Titles of the columns."""
    rows: Sequence[tuple[str, ...]] = ()
    """Cells of each row."""
    rest: str = ""
    """What was left out."""


@dataclass(frozen=True, kw_only=True)
class StatusView:
    """Everything that `hansa status NAME` shows."""

    headline: str
    """One line: its state."""
    phase: str
    """Its phase, which gives the headline its colour."""
    lines: list[str]
    """What it waits for, and until when."""
    warnings: list[str]
    """Signs that no operator is running."""
    tables: list[RowTable]
    """Conditions, environments, history, events; those without rows are left out."""
    footer: list[str]
    """What joining brought, the adapter, and what could not be read."""


def list_federations(
    federations: Iterable[Data], now: datetime, *, wide: bool, spaces: bool
) -> RowTable:
    """One row per federation, the columns of `kubectl get hfed`; all namespaces need their own."""
    titles = ("NAME", "PHASE", "ROUND", "UPDATES", "SUCCESS", "AGE")
    titles = (*(("NAMESPACE",) if spaces else ()), *titles)
    rows = []
    for federation in federations:
        metadata, state = federation["metadata"], get_status(federation)
        rounds = f"{state.get('round') or 0}/{(federation.get('spec') or {}).get('rounds', '?')}"
        cells = [
            *((metadata.get("namespace", ""),) if spaces else ()),
            metadata["name"],
            state.get("phase") or "Pending",
            rounds,
            state.get("updates") or "",
            format_percent(state.get("success")),
            format_age(parse_time(metadata.get("creationTimestamp")), now),
        ]
        progress = find_condition(federation, "Progressing")
        more = (progress.get("reason") or "", progress.get("message") or "") if wide else ()
        rows.append((*cells, *more))
    return RowTable(titles=(*titles, *(("REASON", "MESSAGE") if wide else ())), rows=rows)


def screen(look: FederationView, now: datetime, *, wide: bool = False) -> StatusView:
    """One screen that answers why a federation is stalled."""
    federation = look.federation
    warnings = list_doubts(look, now)
    tables = [
        build_conditions(federation, now),
        _environments(look, now, wide=wide),
        *([_history(federation)] if wide else []),
        build_events(look, now, None if wide else SHOWN_EVENTS),
    ]
    return StatusView(
        headline=headline(federation, now),
        phase=str(get_status(federation).get("phase") or "Pending"),
        lines=describe_waits(federation, now),
        warnings=[*warnings, *([CHECK] if warnings else [])],
        tables=[table for table in tables if table.rows],
        footer=[
            *_describe_probes(federation),
            *_describe_joined(federation, wide=wide),
            *_footer(look),
        ],
    )


def headline(federation: Data, now: datetime) -> str:
    """Name, phase, round and success in one line."""
    metadata, state = federation["metadata"], get_status(federation)
    rounds = (federation.get("spec") or {}).get("rounds")
    parts = [str(state.get("phase") or "Pending")]
    if metadata.get("deletionTimestamp"):
        parts = ["being deleted"]
    open_ = get_current(federation)
    if open_:
        what = "evaluation of round" if open_.get("kind") == "evaluate" else "round"
        opened = parse_time(open_.get("openedAt"))
        since = f" open since {format_clock(opened)} ({format_age(opened, now)})" if opened else ""
        parts.append(f"{what} {open_.get('round')}{since}")
    of = count(rounds, "round") if rounds else "? rounds"
    parts.append(f"{state.get('completed') or 0} of {of} done")
    if state.get("success"):
        best = state.get("best") or {}
        also = (
            f" (best {format_percent(best.get('success'))}, round {best['round']})" if best else ""
        )
        noised = (
            " with the noise of spec.privacy"
            if (federation.get("spec") or {}).get("privacy")
            else ""
        )
        parts.append(f"success {format_percent(state['success'])}{also}{noised}")
    return f"{metadata['name']}: {', '.join(parts)}"


def describe_waits(federation: Data, now: datetime) -> list[str]:
    """What it waits for, and until when."""
    open_ = get_current(federation)
    if (federation.get("spec") or {}).get("suspend"):
        return ["it is suspended: `hansa resume` continues with the same attempts"]
    if not get_status(federation).get("phase"):
        return ["no operator has looked at it yet"]
    if not open_:
        return []
    environments = open_.get("environments") or []
    pending = [e for e in environments if e.get("state") not in constants.CONCLUDED]
    if open_.get("members") is not None:
        attempt = (open_.get("aggregator") or {}).get("attempt", 1)
        lines = [f"waits for the aggregator (attempt {attempt})"]
    elif pending:
        shown = ", ".join(f"{e['name']} ({e.get('state', 'Waiting')})" for e in pending[:8])
        more = f" and {len(pending) - 8} more" if len(pending) > 8 else ""
        answered = len(environments) - len(pending)
        lines = [f"waits for {shown}{more}; {answered} of {len(environments)} have answered"]
    else:
        return ["all have answered: the next step comes at once"]
    clock_ = find_round_wait(federation)
    no_clock = "no deadline yet: the round's time counts from its first running client"
    until = f"until {_format_deadline(clock_, now)}: then {clock_.then}" if clock_ else no_clock
    return [*lines, until]


def _format_deadline(wait: Wait, now: datetime) -> str:
    return f"{format_clock(wait.until)} ({format_countdown(wait.until, now)})"


def build_conditions(federation: Data, now: datetime) -> RowTable:
    """What was observed of an object, and since when."""
    rows = [
        (
            str(c.get("type")),
            str(c.get("status")),
            format_age(parse_time(c.get("lastTransitionTime")), now),
            str(c.get("reason") or ""),
            str(c.get("message") or ""),
        )
        for c in get_status(federation).get("conditions") or ()
    ]
    return RowTable(titles=("CONDITION", "STATUS", "SINCE", "REASON", "MESSAGE"), rows=rows)


def _environments(look: FederationView, now: datetime, *, wide: bool) -> RowTable:
    federation = look.federation
    lines = list(get_status(federation).get("environments") or ())
    lines.sort(key=lambda e: ORDER.index(e["state"]) if e.get("state") in ORDER else 0)
    limit = len(lines) if wide else SHOWN_ENVIRONMENTS
    measured = ("OWN", "GAIN", "ALONE", "SERVED")
    more = ("EXPLORED", "EXPERIENCE", *measured, "POD") if wide else ()
    more = ("EPSILON", *more) if _is_private(look.federation) else more
    return RowTable(
        titles=("ENVIRONMENT", "STATE", "ATTEMPT", "SUCCESS", "UNTIL", *more, "JOB", "MESSAGE"),
        rows=[_environment(look, line, now, wide=wide) for line in lines[:limit]],
        rest=f"and {len(lines) - limit} more: -o wide" if len(lines) > limit else "",
    )


def _environment(look: FederationView, line: Data, now: datetime, *, wide: bool) -> tuple[str, ...]:
    open_ = get_current(look.federation)
    environment = {e["name"]: e for e in open_.get("environments") or ()}.get(line["name"], {})
    pod = _pod(look, line.get("job") or "")
    wait = find_environment_wait(
        open_, environment, _get_start_time(look, line.get("job") or "", pod)
    )
    explored = f"{line.get('succeeded', 0)}/{line['explored']}" if line.get("explored") else ""
    epsilon = line.get("epsilon")
    if epsilon is not None:  # how many were successful is the silo's own
        explored = str(line.get("explored", ""))
    explored += f" ({line['broken']} broken)" if line.get("broken") else ""
    measured = (
        format_percent(line.get("own")),
        str(line.get("gain") or ""),
        format_percent(line.get("alone")),
        format_percent(line.get("personal")),
    )
    more = (
        (explored, str(line.get("experience") or ""), *measured, describe_pod_state(pod))
        if wide
        else ()
    )
    if _is_private(look.federation):
        more = (f"{epsilon:.3f}" if isinstance(epsilon, int | float) else "", *more)
    return (
        str(line["name"]),
        str(line.get("state") or ""),
        str(line.get("attempt") or ""),
        format_percent(line.get("success")),
        _format_deadline(wait, now) if wait else "",
        *more,
        str(line.get("job") or ""),
        str(line.get("message") or ""),
    )


def _is_private(federation: Data) -> bool:
    """Whether silos tell what they have given away of one record."""
    return bool((federation.get("spec") or {}).get("privacy"))


def _pod(look: FederationView, job: str) -> Data:
    """The newest Pod of a Job."""
    mine = [
        pod
        for pod in look.pods
        if any(o.get("name") == job for o in pod["metadata"].get("ownerReferences") or ())
    ]
    return max(mine, key=lambda pod: str(pod["metadata"].get("creationTimestamp")), default={})


def _get_start_time(look: FederationView, job: str, pod: Data) -> datetime | None:
    """When the start clock began: with the Pod, or while there is none with the Job."""
    made = pod or next((j for j in look.jobs if j["metadata"]["name"] == job), {})
    return parse_time((made.get("metadata") or {}).get("creationTimestamp"))


def describe_pod_state(pod: Data) -> str:
    """A Pod in a word or two: what its container waits for, or its phase."""
    state = pod.get("status") or {}
    for container in state.get("containerStatuses") or ():
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason"):
            return str(waiting["reason"])
    scheduled = {c.get("type"): c for c in state.get("conditions") or ()}.get("PodScheduled", {})
    return str(
        (scheduled.get("status") == "False" and scheduled.get("reason")) or state.get("phase", "")
    )


def _history(federation: Data) -> RowTable:
    rows = []
    for entry in get_status(federation).get("history") or ():
        values = list((entry.get("success") or {}).values())
        mean = format_percent(sum(values) / len(values)) if values else ""
        opened, closed = parse_time(entry.get("openedAt")), parse_time(entry.get("closedAt"))
        took = format_age(opened, closed) if closed else ""
        rows.append((str(entry["round"]), entry["outcome"], entry.get("updates", ""), mean, took))
    return RowTable(titles=("ROUND", "OUTCOME", "UPDATES", "SUCCESS", "TOOK"), rows=rows)


def build_events(look: FederationView, now: datetime, limit: int | None) -> RowTable:
    """What happened to an object and to what belongs to it, newest last."""
    every = sorted(look.events, key=lambda event: get_event_time(event) or LONG_AGO)
    chosen = every[-limit:] if limit else every
    return RowTable(
        titles=("EVENT", "AGE", "OBJECT", "MESSAGE"),
        rows=[_event(event, now) for event in chosen],
        rest=f"and {len(every) - len(chosen)} older: -o wide" if len(every) > len(chosen) else "",
    )


def _event(event: Data, now: datetime) -> tuple[str, ...]:
    about = event.get("involvedObject") or {}
    count = int(event.get("count") or (event.get("series") or {}).get("count") or 1)
    message = " ".join(str(event.get("message") or "").split())
    return (
        str(event.get("reason") or ""),
        format_age(get_event_time(event), now),
        ""
        if about.get("kind") in (constants.KIND, constants.MEMBER_KIND)
        else str(about.get("name") or ""),
        f"{message} (x{count})" if count > 1 else message,
    )


def get_event_time(event: Data) -> datetime | None:
    """When it last happened; the two generations of Events keep that in different places."""
    series = (event.get("series") or {}).get("lastObservedTime")
    for text in (series, event.get("lastTimestamp"), event.get("eventTime")):
        if moment := parse_time(text):
            return moment
    return parse_time((event.get("metadata") or {}).get("creationTimestamp"))


def _describe_probes(federation: Data) -> list[str]:
    """What probes say of the adapter that counts; nothing of a status that does not fit."""
    known = {name: get_status(federation).get(name) for name in ("adapter", "history")}
    try:
        read = FederationStatus.model_validate_json(
            json.dumps({k: v for k, v in known.items() if v})
        )
    except ValidationError:
        return []
    return drift.describe_probes(read)


def _describe_joined(federation: Data, *, wide: bool) -> list[str]:
    """What joining brought each environment, where that was measured."""
    lines = [
        line for line in get_status(federation).get("environments") or () if line.get("joined")
    ]
    shown = lines if wide else lines[:SHOWN_ENVIRONMENTS]
    more = [f"and {len(lines) - len(shown)} more: -o wide"] if len(lines) > len(shown) else []
    return [*(format_joined(line) for line in shown), *more]


def format_joined(line: Data) -> str:
    """What an environment had alone, has and serves, and what joining brought it."""
    return joined.format_line(
        line["name"],
        alone=format_percent(line.get("alone")),
        shared=format_percent(line.get("success")),
        served=format_percent(line.get("personal")),
        sentence=line["joined"],
    )


def _footer(look: FederationView) -> list[str]:
    adapter = get_status(look.federation).get("adapter") or {}
    place = f"adapter of round {adapter.get('round')}: {adapter.get('uri')}"
    return [*([place] if adapter.get("uri") else []), *(f"not shown: {n}" for n in look.notes)]


def list_news(federation: Data) -> list[str]:
    """A federation as lines that each change only with what they tell; for `hansa watch | cat`."""
    state = get_status(federation)
    lines = []
    for entry in state.get("history") or ():
        values = list((entry.get("success") or {}).values())
        mean = f", success {format_percent(sum(values) / len(values))}" if values else ""
        ended = f"{entry['outcome']} {entry.get('updates', '')}".strip()
        lines.append(f"round {entry['round']}: {ended}{mean}")
    for type_ in ("Accepted", "Degraded"):
        held = find_condition(federation, type_)
        if (type_, held.get("status")) in (("Accepted", "False"), ("Degraded", "True")):
            lines.append(f"{type_} {held.get('status')}: {held.get('message')}")
    progress = (
        find_condition(federation, "Progressing").get("message") or "no operator has seen it yet"
    )
    return [*lines, f"{state.get('phase') or 'Pending'}: {progress}"]
