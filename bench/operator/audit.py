"""What an audit log says of the operator: its requests, and how fast it follows a finished Job."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from controlplane import OPERATOR
from finisher import ENDED

WRITES = {"create", "update", "patch", "delete", "deletecollection"}
_JOB = re.compile(r"(?P<federation>.+)-(?P<kind>[re])(?P<round>\d+)-(?P<who>.+)-a(?P<attempt>\d+)")
_POD = re.compile(r"(?P<job>.+)-[a-z0-9]{5}")
AGGREGATOR = "aggregator"

Stage = tuple[str, str, str, int]
"""Namespace, federation, r or e, round."""


@dataclass
class Log:
    """What is kept of an audit log."""

    requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    """The operator's requests by verb and resource, answered well or not."""
    refused: Counter[tuple[str, int]] = field(default_factory=Counter)
    """The operator's requests that got another answer, by resource and HTTP status."""
    created: dict[Stage, dict[str, float]] = field(default_factory=dict)
    """When the Jobs of a stage were there, by environment or `aggregator`."""
    ended: dict[Stage, dict[str, float]] = field(default_factory=dict)
    """When their containers had ended."""


def read(path: Path) -> Log:
    """The log of one run."""
    found = Log()
    for entry in _entries(path):
        who = entry["user"]["username"]
        about = entry.get("objectRef") or {}
        what = "/".join(filter(None, (about.get("resource"), about.get("subresource"))))
        if who == OPERATOR:
            _note_request(found, entry, what, about)
        elif what == "pods/status" and f"fieldManager={ENDED}" in entry["requestURI"]:
            name = _POD.fullmatch(about["name"])
            if name and entry["responseStatus"]["code"] == 200:
                _note(found.ended, about["namespace"], name["job"], entry)
    return found


def _note_request(found: Log, entry: dict[str, Any], what: str, about: dict[str, Any]) -> None:
    code = (entry.get("responseStatus") or {}).get("code", 0)
    found.requests[entry["verb"], what or entry["requestURI"].partition("?")[0]] += 1
    if code >= 400:
        found.refused[what, code] += 1
    elif entry["verb"] == "create" and what == "jobs":
        _note(found.created, about["namespace"], about["name"], entry)


def _note(into: dict[Stage, dict[str, float]], space: str, job: str, entry: dict[str, Any]) -> None:
    name = _JOB.fullmatch(job)
    if name:
        stage = (space, name["federation"], name["kind"], int(name["round"]))
        moment = datetime.fromisoformat(entry["stageTimestamp"]).timestamp()
        into.setdefault(stage, {})[name["who"]] = moment


def _entries(path: Path) -> Iterator[dict[str, Any]]:
    with path.open() as lines:
        for line in lines:
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # the last line, half written
            if entry["stage"] == "ResponseComplete" or entry["verb"] == "watch":
                yield entry


def reactions(log: Log) -> dict[str, list[float]]:
    """Seconds from the last end that a federation waited for to the Jobs that follow it."""
    found: dict[str, list[float]] = {"first": [], "last": []}
    for stage, ended in log.ended.items():
        space, name, kind, round_ = stage
        created = log.created.get(stage, {})
        if kind != "r":
            continue
        clients = [moment for who, moment in ended.items() if who != AGGREGATOR]
        if AGGREGATOR in created and clients:
            found["first"].append(created[AGGREGATOR] - max(clients))
            found["last"].append(created[AGGREGATOR] - max(clients))
        following = {
            **log.created.get((space, name, "r", round_ + 1), {}),
            **log.created.get((space, name, "e", round_), {}),
        }
        following.pop(AGGREGATOR, None)
        if AGGREGATOR in ended and following:
            found["first"].append(min(following.values()) - ended[AGGREGATOR])
            found["last"].append(max(following.values()) - ended[AGGREGATOR])
    return found


def quantile(values: Sequence[float], share: float) -> float:
    """The value that this share of them does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def bucket_quantile(buckets: Iterable[tuple[float, float]], share: float) -> float:
    """Upper bound of the histogram bucket that holds the quantile; buckets are cumulative."""
    ordered = sorted(buckets)
    wanted = share * ordered[-1][1] if ordered else 0
    return next((bound for bound, count in ordered if count >= wanted), float("nan"))
