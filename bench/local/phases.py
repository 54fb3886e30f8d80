"""Where the demo's time goes: phases of its rounds, process start included, tokens a second.

    python bench/local/phases.py [--rounds 6] [--out FOLDER]

Runs `hansa demo` once on this machine and reads the reports of its Jobs. Not a test: figures depend
on the machine, and the ones we saw are in bench/README.md.
"""

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from hansa.runtime.capacity import count_usable_cores


def warm_start_seconds(module: str) -> float:
    """Seconds until a warm process has imported everything and takes Jobs."""
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", module, "--warm"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout and process.stdin
    process.stdout.readline()
    seconds = time.monotonic() - began
    process.stdin.close()
    process.wait()
    return seconds


def reports(folder: Path) -> list[dict[str, Any]]:
    """Reports of all Jobs of a run."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("jobs/*/report.json"))]


def measure(folder: Path, rounds: int) -> dict[str, Any]:
    """One demo, and the seconds of its parts."""
    imports = {module: warm_start_seconds(module) for module in ("hansa_client", "hansa_server")}
    began = time.monotonic()
    command = ["demo", "--out", str(folder), "--rounds", str(rounds)]
    subprocess.run([sys.executable, "-m", "hansa.cli.main", *command], check=True)
    wall = time.monotonic() - began
    phases: dict[str, float] = defaultdict(float)
    counts: dict[str, int] = defaultdict(int)
    for report in reports(folder):
        for phase, seconds in report.get("seconds", {}).items():
            phases[f"{report['kind']} {phase}"] += seconds
        for name, value in report.get("counts", {}).items():
            counts[name] += value
    cores = count_usable_cores()
    loading = phases["client load"] + phases["evaluate load"]
    return {
        "machine": f"{platform.machine()}, {cores} cores, Python {platform.python_version()}",
        "wall_seconds": wall,
        "import_seconds": imports,
        "phase_core_seconds": dict(sorted(phases.items())),
        "import_and_load_share": (max(imports.values()) + loading / cores) / wall,
        "explored_tokens_per_second": counts["generated"] / phases["client explore"],
        "trained_tokens_per_second": counts["tokens"] / phases["client train"],
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        print(json.dumps(measure(given.out or Path(scratch) / "run", given.rounds), indent=2))


if __name__ == "__main__":
    main()
