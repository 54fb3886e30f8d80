"""What a cold Job costs before and beside its work: one client's and one aggregator's round, anew.

    python bench/startup/cold.py [--times 3] [--imports]

Every Job of a cluster is a new process. This runs a small round of `builtin:tiny` as such, against
an S3 server of its own, and takes the reported phases off the process's time: what is left is the
start. `--imports` adds the dearest imports. Not a test: the figures we saw are in bench/README.md.
"""

import argparse
import hashlib
import json
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from hansa.api import bucket_keys
from hansa.api.assignment import ENV_ASSIGNMENT, ENV_REPORT, Assignment
from hansa.local.objectstore import RUNNER, LocalStore

WORK = ("evaluate", "explore", "train", "send", "read", "aggregate", "write")
"""Phases that are the round itself; loading the model counts as start."""
COMMON: dict[str, Any] = {
    "federation": "cold",
    "seed": 7,
    "model": {"source": "builtin:tiny"},
    "adapter": {},
    "round": 1,
    "start": {},
    "settings": {
        "exploration": {"tasksPerRound": 8},
        "experience": {"demonstrations": 6, "thoughts": False},
        "training": {"epochs": 1, "learningRate": 5.0e-3, "maxSteps": 6, "maxLength": 512},
        "evaluation": {"tasks": 8},
        "aggregation": {"strategy": "mean"},
    },
    "environments": ["maze"],
}
CLIENT = {"environment": "maze", "world": "maze", "options": {"map": "generated", "max_turns": 4}}
_IMPORT = re.compile(r"import time: +(\d+) \| +(\d+) \| ( *)(\S+)")


def run(
    module: str, assignment: Assignment, environ: dict[str, str], imports: int
) -> dict[str, Any]:
    """One program from nothing to its end: its seconds, report and dearest imports."""
    flags = ["-X", "importtime"] if imports else []
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.json"
        fields = {
            ENV_ASSIGNMENT: assignment.model_dump_json(by_alias=True),
            ENV_REPORT: str(report),
        }
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        ended = subprocess.run(
            [sys.executable, *flags, "-m", module],
            env={**os.environ, **environ, **fields},
            capture_output=True,
            text=True,
            check=False,
        )
        wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        if ended.returncode:
            sys.exit(f"{module} ended with {ended.returncode}:\n{ended.stderr[-2000:]}")
        said = json.loads(report.read_text())
    work = sum(seconds for phase, seconds in said["seconds"].items() if phase in WORK)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    found = {"wall": wall, "cpu": spent, "start": wall - work, "report": said}
    return found | {"imports": dearest(ended.stderr, imports)}


def dearest(sentence: str, most: int) -> list[tuple[str, float]]:
    """The imports that cost most with all they pull in, in seconds."""
    found = [(name, int(all_) / 1e6) for _, all_, _, name in _IMPORT.findall(sentence)]
    return sorted(found, key=lambda one: -one[1])[:most]


def measure(store: LocalStore, prefix: str, imports: int) -> dict[str, dict[str, Any]]:
    """A client's round, then the aggregator's over it."""
    storage = {"storage": store.s3.model_copy(update={"prefix": prefix})}
    environ = store.environ(RUNNER)
    assignment = Assignment.model_validate({**COMMON, **CLIENT, **storage, "role": "client"})
    client = run("hansa_client", assignment, environ, imports)
    member = {"environment": "maze", "manifest": client["report"]["manifest"]}
    merging = {"role": "aggregator", "members": [member]}
    assignment = Assignment.model_validate({**COMMON, **storage, **merging})
    server = run("hansa_server", assignment, environ, imports)
    key = bucket_keys.update_folder(prefix, "maze", 1) + bucket_keys.ADAPTER
    client["adapter"] = hashlib.sha256(store.store().get(key)).hexdigest()
    server["adapter"] = server["report"]["adapter"]
    return {"client": client, "aggregator": server}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--imports", type=int, nargs="?", const=40, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, LocalStore(Path(scratch), []) as store:
        store.store().ensure_bucket()
        runs = [measure(store, f"run-{i}", given.imports) for i in range(given.times)]
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    for program in ("client", "aggregator"):
        these = [run[program] for run in runs]
        print(f"{program}: adapter sha256 {', '.join(sorted({r['adapter'][:16] for r in these}))}")
        for name in ("wall", "cpu", "start"):
            seconds = [one[name] for one in these]
            print(f"  {name:6} {statistics.median(seconds):6.2f} s  (best {min(seconds):.2f})")
        print(f"  report {json.dumps(these[-1]['report']['seconds'])}")
        for name, seconds in these[-1]["imports"]:
            print(f"    {seconds:6.3f} {name}")


if __name__ == "__main__":
    main()
