"""How the operator does with many federations: reaction, requests, CPU and memory.

    python bench/operator/scale.py --federations 200 --environments 5 --rounds 3 \\
        --least 60 --most 180

Starts a control plane without nodes and the operator beside it, makes the federations, and has
their Pods finished by `finisher.py` after a random while. Not a test: the figures we saw are in
bench/README.md, and each run leaves a JSON file in runs/operator.
"""

import argparse
import contextlib
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import audit
from controlplane import OPERATOR, ControlPlane, free_ports

from hansa.kubernetes.client import ApiError, Kube

HERE = Path(__file__).parent
PER_NAMESPACE = 20
FEDERATIONS = "/apis/hansa.dev/v1alpha1"
_SAMPLE = re.compile(r"hansa_reconcile_seconds_(bucket|sum|count)\{(.*)\} (\S+)")
_BOUND = re.compile(r'le="([^"]+)"')


def manifest(name: str, environments: int, rounds: int) -> dict[str, Any]:
    """A federation whose bucket nobody will ever reach."""
    return {
        "apiVersion": "hansa.dev/v1alpha1",
        "kind": "Federation",
        "metadata": {"name": name},
        "spec": {
            "rounds": rounds,
            "model": {"source": "builtin:tiny"},
            "storage": {
                "s3": {"endpoint": "http://nowhere.invalid", "bucket": "nowhere", "prefix": name}
            },
            "environments": [{"name": f"e{i}", "world": "maze"} for i in range(environments)],
        },
    }


@contextlib.contextmanager
def started(*command: str, log: Path, **environ: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends with the block."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, *command], env={**os.environ, **environ}, stdout=out, stderr=out
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def cpu_seconds(pid: int) -> float:
    """CPU time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mib(pid: int, name: str) -> float:
    """VmRSS or VmHWM of a process."""
    text = Path(f"/proc/{pid}/status").read_text()
    found = re.search(rf"{name}:\s+(\d+) kB", text)
    return int(found[1]) / 1024 if found else float("nan")


def create(kube: Kube, given: argparse.Namespace) -> None:
    """All federations at once, a few to a namespace."""
    for number in range(given.federations):
        space = f"bench-{number // PER_NAMESPACE}"
        if number % PER_NAMESPACE == 0:
            kube.create("/api/v1/namespaces", {"metadata": {"name": space}})
        body = manifest(f"fed-{number}", given.environments, given.rounds)
        kube.create(f"{FEDERATIONS}/namespaces/{space}/federations", body)


def wait(kube: Kube, given: argparse.Namespace, operator: "subprocess.Popen[bytes]") -> None:
    """Return when all have succeeded; say how far they are in between."""
    deadline = time.monotonic() + given.patience
    while True:
        time.sleep(5)
        if operator.poll() is not None:
            sys.exit(f"the operator ended with {operator.returncode}")
        try:
            found = kube.list(f"{FEDERATIONS}/federations")["items"]
        except ApiError as error:
            print(error.message, file=sys.stderr)
            continue
        states: dict[str, int] = defaultdict(int)
        for each in found:
            status = each.get("status") or {}
            states[f"{status.get('phase')} r{status.get('round')}"] += 1
        print(f"{time.strftime('%H:%M:%S')} {dict(sorted(states.items()))}", file=sys.stderr)
        if sum(n for state, n in states.items() if state.startswith("Succeeded")) == len(found):
            return
        if time.monotonic() > deadline:
            sys.exit("not all federations succeeded in time")


def reconciles(port: int) -> dict[str, float]:
    """Passes and their quantiles, from the operator's own histogram."""
    text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
    buckets: dict[float, float] = defaultdict(float)
    sums: dict[str, float] = defaultdict(float)
    for kind, labels, value in _SAMPLE.findall(text):
        if kind == "bucket" and (bound := _BOUND.search(labels)):
            buckets[float(bound[1])] += float(value)
        elif kind != "bucket":
            sums[kind] += float(value)
    return {
        "passes": sums["count"],
        "mean_seconds": sums["sum"] / max(1.0, sums["count"]),
        "p50_at_most_seconds": audit.bucket_quantile(buckets.items(), 0.5),
        "p99_at_most_seconds": audit.bucket_quantile(buckets.items(), 0.99),
    }


def measure(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """One run from nothing to all succeeded."""
    with ControlPlane(folder) as plane:
        (port,) = free_ports(1)
        environ = {
            "KUBECONFIG": str(plane.kubeconfig(OPERATOR)),
            "HANSA_METRICS_PORT": str(port),
            "HANSA_LEASE_NAMESPACE": "default",
            "HANSA_CLUSTER_AUTOSCALER": "true",
            "HANSA_WORKERS": str(given.workers),
        }
        finisher = ["--kubeconfig", str(plane.kubeconfig("nobodys-kubelet"))]
        finisher += ["--least", str(given.least), "--most", str(given.most)]
        with (
            started("-m", "hansa_operator", log=folder / "operator.log", **environ) as operator,
            started(str(HERE / "finisher.py"), *finisher, log=folder / "finisher.log"),
        ):
            kube = plane.kube()
            time.sleep(8)  # imports and the Lease are no part of it
            idle_cpu, idle_mib = cpu_seconds(operator.pid), memory_mib(operator.pid, "VmRSS")
            began = time.monotonic()
            create(kube, given)
            wait(kube, given, operator)
            seconds = time.monotonic() - began
            own = {
                "cpu_seconds": cpu_seconds(operator.pid) - idle_cpu,
                "rss_mib": memory_mib(operator.pid, "VmRSS"),
                "peak_rss_mib": memory_mib(operator.pid, "VmHWM"),
                "rss_before_mib": idle_mib,
            }
            others = {name: cpu_seconds(pid) for name, pid in plane.pids().items()}
            passes = reconciles(port)
    return {"seconds": seconds, "operator": own, "cpu_of_others": others, "reconcile": passes}


def judge(found: dict[str, Any], log: audit.Log, given: argparse.Namespace) -> dict[str, Any]:
    """The figures, with what the audit log says."""
    rounds = given.federations * given.rounds
    requests = {f"{verb} {what}": n for (verb, what), n in sorted(log.requests.items())}
    writes = sum(
        n for (verb, what), n in log.requests.items() if verb in audit.WRITES and what != "leases"
    )
    reads = sum(n for (verb, _), n in log.requests.items() if verb in ("get", "list"))
    waits = audit.reactions(log)
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}",
        "load_average": os.getloadavg(),
        "federations": given.federations,
        "environments": given.environments,
        "rounds": given.rounds,
        "client_seconds": [given.least, given.most],
        **found,
        "reactions": {
            name: {
                "count": len(values),
                "p50": audit.quantile(values, 0.5),
                "p90": audit.quantile(values, 0.9),
                "p99": audit.quantile(values, 0.99),
                "max": max(values, default=float("nan")),
            }
            for name, values in waits.items()
        },
        "writes_per_round": writes / rounds,
        "reads_per_round": reads / rounds,
        "requests": requests,
        "refused": {f"{what} {code}": n for (what, code), n in sorted(log.refused.items())},
    }


def show(found: dict[str, Any]) -> None:
    """The table of one run."""
    first, last = found["reactions"]["first"], found["reactions"]["last"]
    own, passes = found["operator"], found["reconcile"]
    rows = [
        ("federations x environments x rounds", f"{found['federations']} x "
         f"{found['environments']} x {found['rounds']} in {found['seconds']:.0f} s"),
        ("finished -> next Job, p50 / p99 / max", f"{first['p50']:.2f} / {first['p99']:.2f} / "
         f"{first['max']:.2f} s ({first['count']})"),
        ("finished -> all next Jobs, p50 / p99", f"{last['p50']:.2f} / {last['p99']:.2f} s"),
        ("a pass, mean / p50 / p99", f"{passes['mean_seconds']:.3f} / <= "
         f"{passes['p50_at_most_seconds']:g} / <= {passes['p99_at_most_seconds']:g} s "
         f"({passes['passes']:.0f})"),
        ("API writes per round", f"{found['writes_per_round']:.1f}"),
        ("API reads per round", f"{found['reads_per_round']:.1f}"),
        ("CPU of the operator", f"{own['cpu_seconds']:.1f} s"),
        ("memory of the operator, peak", f"{own['peak_rss_mib']:.0f} MiB"),
    ]  # fmt: skip
    for name, value in rows:
        print(f"{name:40} {value}")
    for name, count in found["requests"].items():
        print(f"    {count:7} {name}")
    if found["refused"]:
        print(f"    refused: {found['refused']}")


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--federations", type=int, default=50)
    parser.add_argument("--environments", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--least", type=float, default=30.0, help="seconds of a client at least")
    parser.add_argument("--most", type=float, default=90.0, help="seconds of a client at most")
    parser.add_argument("--workers", type=int, default=8, help="the operator's setting")
    parser.add_argument("--patience", type=float, default=1800.0)
    parser.add_argument("--keep", type=Path, help="folder for logs; otherwise they are removed")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.keep or Path(scratch)
        found = judge(measure(given, folder), audit.read(folder / "audit.log"), given)
    results = HERE.parents[1] / "runs/operator"
    results.mkdir(parents=True, exist_ok=True)
    name = f"scale-{given.federations}x{given.environments}x{given.rounds}.json"
    (results / name).write_text(json.dumps(found, indent=1) + "\n")
    show(found)


if __name__ == "__main__":
    main()
