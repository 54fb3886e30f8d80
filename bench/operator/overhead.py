"""What a round costs on a cluster beside its work, and where each second of that goes.

    export KUBECONFIG=...          # a cluster on which the chart and the images are installed
    python bench/operator/overhead.py examples/01-two-worlds/federation.yaml

Applies the manifest, watches its Jobs and Pods with this machine's clock, reads the programs' logs
and reports, and follows the chain that each round waited for: the client that ended last, then the
aggregator, then the next round's first Job. Work is playing, training and aggregating; everything
else is overhead: scheduling, containers, imports, loading, the object store, the operator.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from hansa.api import constants
from hansa.kubernetes.client import ApiError, Kube, connect

RESULTS = Path(__file__).parents[2] / "runs/operator"
WORK = ("evaluate", "explore", "train", "aggregate")
AGGREGATOR = "aggregator"
SEGMENTS = (
    "Job made -> Pod scheduled",
    "Pod scheduled -> the client's first line (container, Python, first imports, store)",
    "first line -> model ready (torch, model, start adapter)",
    "work: evaluate, explore, train",
    "work done -> end is seen (sending, exit, kubelet)",
    "end is seen -> aggregator's Job made (operator)",
    "Job made -> Pod scheduled, aggregator",
    "Pod scheduled -> aggregator's last line, less its work (container, Python, store)",
    "work: aggregate",
    "aggregator's last line -> end is seen (exit, kubelet)",
    "end is seen -> next round's first Job made (operator)",
)
Data = dict[str, Any]


class Watcher:
    """Moments of one federation's Jobs and Pods, by Job name."""

    def __init__(self, kube: Kube, namespace: str, name: str) -> None:
        self._kube = kube
        self._space = f"namespaces/{namespace}"
        self._selector = f"{constants.LABEL_FEDERATION}={name}"
        self.jobs: dict[str, Data] = {}
        self._lock = threading.Lock()

    def start(self) -> None:
        """Watch in threads of their own, which end with the process."""
        for path, see in (
            (f"/apis/batch/v1/{self._space}/jobs", self._see_job),
            (f"/api/v1/{self._space}/pods", self._see_pod),
        ):
            threading.Thread(target=self._watch, args=(path, see), daemon=True).start()

    def _watch(self, path: str, see: Any) -> None:
        while True:
            try:
                listed = self._kube.list(path, labelSelector=self._selector)
                for thing in listed["items"]:
                    see(thing, time.time())
                version = listed["metadata"]["resourceVersion"]
                for event in self._kube.watch(
                    path, resource_version=version, labelSelector=self._selector
                ):
                    if event["type"] in ("ADDED", "MODIFIED"):
                        see(event["object"], time.time())
            except ApiError as error:
                print(f"watch: {error.message}", file=sys.stderr)
                time.sleep(0.5)

    def _note(self, job: str, **moments: Any) -> bool:
        """Keep what is new; whether anything was."""
        with self._lock:
            known = self.jobs.setdefault(job, {})
            fresh = {name: value for name, value in moments.items() if name not in known}
            known.update(fresh)
            return bool(fresh)

    def _see_job(self, job: Data, now: float) -> None:
        labels = job["metadata"]["labels"]
        self._note(
            job["metadata"]["name"],
            made=now,
            role=labels[constants.LABEL_ROLE],
            round=int(labels[constants.LABEL_ROUND]),
        )

    def _see_pod(self, pod: Data, now: float) -> None:
        owner = pod["metadata"]["ownerReferences"][0]["name"]
        if pod["spec"].get("nodeName"):
            self._note(owner, scheduled=now)
        for container in pod["status"].get("containerStatuses") or ():
            ended = container["state"].get("terminated")
            if ended and self._note(owner, ended=now):
                lines = self._lines(pod["metadata"]["name"], container["name"])
                self._note(owner, code=ended["exitCode"], said=ended.get("message"), lines=lines)

    def _lines(self, pod: str, container: str) -> list[tuple[float, str]]:
        path = f"/api/v1/{self._space}/pods/{pod}/log"
        try:
            return list(_stamped(self._kube.lines(path, timestamps=True, container=container)))
        except ApiError as error:
            print(f"log: {error.message}", file=sys.stderr)
            return []


def _stamped(lines: Iterator[bytes]) -> Iterator[tuple[float, str]]:
    """Lines of a log with the moment each was written, and the event it tells."""
    for line in lines:
        stamp, _, text = line.decode(errors="replace").partition(" ")
        moment = datetime.fromisoformat(stamp[:26] + "+00:00").timestamp()
        words = text.split()
        yield moment, words[1] if len(words) > 1 else ""


def follow(jobs: dict[str, Data], round_: int) -> dict[str, float] | None:
    """The chain that one round waited for, cut into segments; nothing if a part was not seen."""
    mine = [job for job in jobs.values() if job["round"] == round_ and job.get("said")]
    clients = [job for job in mine if job["role"] == "client" and job["code"] == 0]
    merging = [job for job in mine if job["role"] == AGGREGATOR and job["code"] == 0]
    following = [
        job["made"]
        for job in jobs.values()
        if (job["role"] == "client" and job["round"] == round_ + 1)
        or (job["role"] == "evaluate" and job["round"] == round_)
    ]
    if not clients or not merging or not following:
        return None
    client, server = max(clients, key=lambda job: job["ended"]), merging[-1]
    report, merged = json.loads(client["said"])["seconds"], json.loads(server["said"])["seconds"]
    work = sum(report.get(phase, 0.0) for phase in WORK)
    first = client["lines"][0][0]
    evaluated = next((at for at, event in client["lines"] if event == "evaluated"), None)
    ready = evaluated - report["evaluate"] if evaluated else first + report["load"]
    last = server["lines"][-1][0]
    moments = [
        client["scheduled"] - client["made"],
        first - client["scheduled"],
        ready - first,
        work,
        client["ended"] - ready - work,
        server["made"] - client["ended"],
        server["scheduled"] - server["made"],
        last - server["scheduled"] - merged["aggregate"],
        merged["aggregate"],
        server["ended"] - last,
        min(following) - server["ended"],
    ]
    return dict(zip(SEGMENTS, moments, strict=True))


def overhead(chain: dict[str, float]) -> float:
    """Seconds of a chain that are no work."""
    return sum(seconds for name, seconds in chain.items() if not name.startswith("work:"))


def wait(kube: Kube, path: str, patience: float) -> Data:
    """The federation at its end."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        found = kube.get(path)
        status = found.get("status") or {}
        if status.get("phase") in ("Succeeded", "Failed"):
            return found
        time.sleep(1)
    sys.exit("the federation did not end in time")


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--patience", type=float, default=900.0)
    given = parser.parse_args()
    federation = yaml.safe_load(given.manifest.read_text())
    kube = connect(pool_size=8)
    space = federation["metadata"].setdefault("namespace", kube.namespace)
    name = federation["metadata"]["name"]
    watcher = Watcher(kube, space, name)
    watcher.start()
    collection = f"/apis/{constants.API_VERSION}/namespaces/{space}/{constants.PLURAL}"
    kube.create(collection, federation)
    ended = wait(kube, f"{collection}/{name}", given.patience)
    if ended["status"]["phase"] != "Succeeded":
        sys.exit(f"the federation ended as {ended['status']['phase']}")
    time.sleep(2)  # the last logs
    rounds = range(1, federation["spec"]["rounds"] + 1)
    chains = {r: chain for r in rounds if (chain := follow(watcher.jobs, r))}
    if not chains:
        sys.exit("no round was seen from its first Job to the next round's")
    RESULTS.mkdir(parents=True, exist_ok=True)
    kept = {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load_average": os.getloadavg(),
        "federation": name,
        "rounds": {r: {**chain, "overhead": overhead(chain)} for r, chain in chains.items()},
    }
    (RESULTS / f"overhead-{name}.json").write_text(json.dumps(kept, indent=1) + "\n")
    show(chains)


def show(chains: dict[int, dict[str, float]]) -> None:
    """The table: a column for each round, and the median."""
    heads = "".join(f"  round {r}" for r in chains)
    print(f"{'':84}{heads}   median")
    rows = [(name, [chain[name] for chain in chains.values()]) for name in SEGMENTS]
    rows.append(("overhead", [overhead(chain) for chain in chains.values()]))
    rows.append(("whole round", [sum(chain.values()) for chain in chains.values()]))
    for name, values in rows:
        shown = "".join(f"{value:9.2f}" for value in (*values, statistics.median(values)))
        print(f"{name:84}{shown}")


if __name__ == "__main__":
    main()
