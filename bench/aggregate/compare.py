"""Hansa's aggregation beside Flower's, NVFLARE's and PEFT's, on the same files in one run.

python bench/aggregate/compare.py --adapters /tmp/adapters --peers /tmp/peers/bin/python \\
    --counts 5,20,40,100 --out docs/results/aggregate.json

First comes what a user types: `hansa aggregate`, with diagnostics as by default and without, from
the process's start to its end. All others are the work alone. Each measurement is a process of its
own, after one that warms the page cache; of several, the fastest counts, since all that disturbs
makes slower. The load average beside it is that of the last minute, this run's own work included.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from adapters import add_moments, folders

from tools.pages import kept

HERE = Path(__file__).parent
WAYS = [
    "command:mean",
    "command:mean+no-diagnostics",
    "hansa:mean",
    "flower:mean",
    "nvflare:mean",
    "hansa:mean+diagnostics",
    "hansa:median",
    "flower:median",
    "hansa:trimmed-mean",
    "flower:trimmed-mean",
    "hansa:krum",
    "flower:krum",
    "hansa:svd",
    "hansa:flora",
    "hansa:fedex",
    "hansa:regmean",
]
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def measure(python: str, way: str, given: list[Path], times: int) -> dict[str, Any]:
    """The fastest of several runs."""
    threads = {} if way.startswith(("peft:", "dense:")) else ONE_THREAD
    runs = []
    for _ in range(times):
        ended = subprocess.run(
            [python, str(HERE / "contender.py"), way, *map(str, given)],
            env={**os.environ, **threads},
            capture_output=True,
            text=True,
            check=False,
        )
        if ended.returncode:
            return {"error": ended.stderr.strip().splitlines()[-1][:200]}
        runs.append(json.loads(ended.stdout.splitlines()[-1]))
    return min(runs, key=lambda run: run["seconds"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--adapters", type=Path, required=True)
    parser.add_argument("--peers", default=sys.executable, help="Python with flwr and nvflare.")
    parser.add_argument("--counts", default="5")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--only", default="", help="One kind of layer, as self_attn.q_proj.")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--out", type=Path, help="file for what plot.py draws")
    options = parser.parse_args()
    rows = []
    for count in map(int, options.counts.split(",")):
        given = list(folders(options.adapters, count, options.layers, options.only))
        if ":regmean" in options.ways and not options.only:
            for seed, folder in enumerate(given):
                add_moments(folder, seed, options.layers)
        for way in options.ways.split(","):
            own = way.startswith(("command:", "hansa:", "peft:", "dense:"))
            found = measure(sys.executable if own else options.peers, way, given, options.times)
            rows.append({"count": count, "way": way, **found, "load": os.getloadavg()[0]})
            print(json.dumps(rows[-1]), flush=True)
    if options.out:
        shown = ("count", "way", "seconds", "peakMB")
        kept.write(options.out, {"rows": [{name: row[name] for name in shown} for row in rows]})


if __name__ == "__main__":
    main()
