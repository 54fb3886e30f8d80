"""The API server's audit log: who asked for what, told by the one who answered."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from tests.cluster.kube import Cluster

OPERATOR = "system:serviceaccount:hansa:hansa-operator"


class Use(NamedTuple):
    """One right that was used."""

    verb: str
    resource: str


def entries(cluster: Cluster) -> Iterator[dict[str, Any]]:
    """All answered requests that the log has; a watch is answered as long as it lasts."""
    folder = Path(cluster.script("kubeconfig").stdout.strip()).parent
    with (folder / "logs" / "audit.log").open() as log:
        for line in log:
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # being written
            if entry.get("stage") in ("ResponseComplete", "ResponseStarted"):
                yield entry


def now() -> str:
    """This moment, as the log writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def created_jobs(cluster: Cluster, federation: str, since: str) -> list[str]:
    """Names of a federation's Jobs, once for each time that one was made since that moment."""
    found = []
    for entry in entries(cluster):
        what, code = entry.get("objectRef") or {}, entry["responseStatus"].get("code")
        is_job = (entry["verb"], what.get("resource"), what.get("subresource")) == (
            "create",
            "jobs",
            None,
        )
        made = entry["requestReceivedTimestamp"] >= since and code == 201
        if is_job and made and str(what.get("name")).startswith(f"{federation}-"):
            found.append(what["name"])
    return found


def uses(cluster: Cluster, user: str = OPERATOR) -> set[Use]:
    """Every right that a user has used with success."""
    found = set()
    for entry in entries(cluster):
        what = entry.get("objectRef") or {}
        if entry["user"]["username"] != user or not what.get("resource"):
            continue
        if entry["responseStatus"].get("code", 0) < 400 or entry["responseStatus"]["code"] in (
            404,
            409,
        ):
            group = f".{what['apiGroup']}" if what.get("apiGroup") else ""
            sub = f"/{what['subresource']}" if what.get("subresource") else ""
            found.add(Use(entry["verb"], f"{what['resource']}{group}{sub}"))
    return found
