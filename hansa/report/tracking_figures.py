"""From a federation's status, and its manifests where they are read, to what trackers hold."""

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from hansa.api.constants import ANSWERED
from hansa.api.status import EnvironmentStatus, Federation, HistoryEntry, RoundSettings
from hansa.core.stats import average
from hansa.report.run_facts import EnvironmentRound, Round
from hansa.report.run_settings import flatten_settings, flatten_world, shorten_value
from hansa.tracking.record import Point, Record, State, TrackedRun

LONGEST_NAME = 120
LONGEST_VALUE = 250
_COUNTS = ("explored", "succeeded", "broken", "experience")
"""Counts that the status has of each environment's newest answer, and manifests of all."""
_WORK = ("kept", "steps", "tokens", "generated", "norm", "loss", "epsilon")
_BY_ENVIRONMENT = ("success", "episodes", "effective", "validation", "own")
_NAMES = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./ ")
"""Characters that every tracker takes in a name."""

Figures = dict[tuple[str, int], Point]


def build_record(
    federation: Federation, identity: str, *, is_over: bool, rounds: Sequence[Round] = ()
) -> Record:
    """What there is to export; `rounds` are those of the manifests, where somebody has read them.

    `is_over`: no runner works on it. Messages of the status are not exported: a failure's message
    may quote what a world said.
    """
    status, name = federation.status, federation.metadata.name
    times = {entry.round: entry.closed_at or entry.opened_at for entry in status.history}
    opened = [entry.opened_at for entry in status.history if entry.opened_at]
    started = min(opened, default=status.current.opened_at if status.current else None)
    closed = [entry.closed_at for entry in status.history if entry.closed_at]
    times[0] = times.get(0) or started
    parent = TrackedRun(
        key=identity,
        name=name,
        parameters=_parameters(federation),
        facts=_facts(federation),
        points=_sort_points(_list_federation_figures(federation, rounds), times),
    )
    silos = (
        _build_silo_run(federation, identity, each.name, rounds, times)
        for each in sorted(federation.spec.environments, key=lambda each: each.name)
    )
    ended: State = "finished" if status.phase == "Succeeded" else "failed"
    return Record(
        federation=parent,
        silos=tuple(silos),
        state=ended if is_over else "running",
        started_at=started,
        ended_at=max(closed, default=None) if is_over else None,
    )


def _parameters(federation: Federation) -> dict[str, str]:
    """The settings of the newest round, or of the one that would open now."""
    spec, status = federation.spec, federation.status
    open_ = status.current.settings if status.current else RoundSettings.from_spec(spec)
    flat = flatten_settings({**spec.to_json(), **open_.to_json()})
    return _bound_lengths({"rounds": spec.rounds, "environments": len(spec.environments), **flat})


def _bound_lengths(flat: Mapping[str, Any]) -> dict[str, str]:
    return {
        _sanitize_name(path): shorten_value(value, LONGEST_VALUE)
        for path, value in sorted(flat.items())
    }


def _sanitize_name(path: str) -> str:
    return "".join(c if c in _NAMES else "_" for c in path)[:LONGEST_NAME].strip("./ ") or "_"


def _facts(federation: Federation) -> dict[str, str]:
    """Its state; no messages, since those may quote a Pod."""
    status = federation.status
    facts = {
        "phase": status.phase,
        "round": str(status.round),
        "completed": str(status.completed),
        "updates": status.updates,
        "success": status.success,
    }
    if status.best:
        facts |= {"best.round": str(status.best.round), "best.success": status.best.success}
    if status.adapter:
        facts |= {
            "adapter.round": str(status.adapter.round),
            "adapter.sha256": status.adapter.sha256,
        }
    if status.guard:
        facts |= {
            "guard.rollbacks": str(status.guard.rollbacks),
            "guard.stepFactor": str(status.guard.step_factor),
        }
    for outcome in sorted({entry.outcome for entry in status.history} - {"base", "aggregated"}):
        rounds = [str(entry.round) for entry in status.history if entry.outcome == outcome]
        facts[f"rounds.{outcome}"] = shorten_value(" ".join(rounds), LONGEST_VALUE)
    return {name: value for name, value in facts.items() if value}


# -- the federation as a whole --------------------------------------------------------------------


def _list_federation_figures(
    federation: Federation, rounds: Sequence[Round]
) -> Iterator[tuple[str, int, Any]]:
    wanted = [each.name for each in federation.spec.environments]
    for entry in federation.status.history:
        for metric in ("success", "validation", "own"):
            yield metric, entry.round, average(getattr(entry, metric), wanted)
        members, _, of = entry.updates.partition("/")
        yield "updates", entry.round, members
        yield "environments", entry.round, of
        yield "serverStep", entry.round, entry.server_step
        if entry.opened_at and entry.closed_at:
            yield "seconds", entry.round, (entry.closed_at - entry.opened_at).total_seconds()
        if entry.probes:
            for name, share in entry.probes.violations.items():
                yield f"violations.{name}", entry.round, share
            for name, nats in entry.probes.forgotten.items():
                yield f"forgotten.{name}", entry.round, nats
    for each in rounds:
        yield "norm", each.number, each.norm
        yield "adapterBytes", each.number, each.adapter_bytes
        for phase, seconds in each.seconds.items():
            yield f"seconds.{phase}", each.number, seconds


# -- one silo -------------------------------------------------------------------------------------


def _build_silo_run(
    federation: Federation,
    identity: str,
    name: str,
    rounds: Sequence[Round],
    times: Mapping[int, datetime | None],
) -> TrackedRun:
    environment = federation.spec.environment(name)
    line = next((each for each in federation.status.environments if each.name == name), None)
    figures = [
        *(
            figure
            for entry in federation.status.history
            for figure in _list_evaluations(entry, name)
        ),
        *(figure for each in rounds if name in each.parts for figure in _list_work(each, name)),
        *(_list_newest(federation, line) if line else ()),
    ]
    served = {"serves": line.serves} if line and line.serves else {}
    return TrackedRun(
        key=f"{identity}/{name}",
        name=f"{federation.metadata.name}/{name}",
        parameters=_bound_lengths(flatten_world(environment.world, environment.options)),
        facts=served,
        points=_sort_points(figures, times),
    )


def _list_evaluations(entry: HistoryEntry, name: str) -> Iterator[tuple[str, int, Any]]:
    for metric in _BY_ENVIRONMENT:
        yield metric, entry.round, getattr(entry, metric).get(name)
    if name in entry.own and name in entry.success:
        yield "gain", entry.round, round(entry.success[name] - entry.own[name], 4)


def _list_work(each: Round, name: str) -> Iterator[tuple[str, int, Any]]:
    part: EnvironmentRound = each.parts[name]
    for metric in (*_COUNTS, *_WORK):
        yield metric, each.number, getattr(part, metric)
    for phase, seconds in part.seconds.items():
        yield f"seconds.{phase}", each.number, seconds


def _list_newest(federation: Federation, line: EnvironmentStatus) -> Iterator[tuple[str, int, Any]]:
    """What the status has once for each environment, in the round that it is of."""
    status = federation.status
    if line.state in ANSWERED and line.healthy and status.round:
        is_private = line.epsilon is not None  # then other counts are withheld, which is not zero
        for metric in ("explored", "epsilon") if is_private else _COUNTS:
            yield metric, status.round, getattr(line, metric)
    for metric in ("personal", "alone"):
        yield metric, status.evaluated, getattr(line, metric)


def _sort_points(
    figures: Iterator[tuple[str, int, Any]] | Sequence[tuple[str, int, Any]],
    times: Mapping[int, datetime | None],
) -> tuple[Point, ...]:
    """Finite numbers, each round's each metric once, in the order of rounds."""
    points: Figures = {}
    for metric, step, value in figures:
        if value is None or value == "" or not math.isfinite(float(value)):
            continue
        name = _sanitize_name(metric)
        points[name, step] = Point(
            metric=name, step=step, value=float(value), time=times.get(step) or times[0]
        )
    return tuple(points[key] for key in sorted(points, key=lambda key: (key[1], key[0])))
