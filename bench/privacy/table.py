"""What privacy costs in success: one federation, and the table of many.

    python bench/privacy/table.py run --sigma 1 --seed 1 --out results/federated-1-1.json
    python bench/privacy/table.py run --sigma 1 --seed 1 --alone --out results/alone-1-1.json
    python bench/privacy/table.py show results --json docs/results/privacy.json

A run is all silos in one process, by the client's own code: they play, keep what succeeded, train
under noise and pay for it. Success is exact, on held-out tasks: what a silo would tell of it has
noise as well. Settings are tiny.yaml's; smollm2.yaml is for a GPU.
"""

import argparse
from pathlib import Path
from typing import Any

import private_play
from private_play import PrivatePlay

from hansa.compare import statistics
from hansa.compare.statistics import Rate, Sample, Summary
from tools import privacy_tables

Line = tuple[str, str, str, float]
"""Model, strategy, alone or federated, and noise; 0 is no privacy."""


def line_of(result: dict[str, Any]) -> Line:
    """Which line of the table a run belongs to."""
    who = "alone" if result["merge"] == "alone" else "federated"
    return result["spec"]["model"]["source"], result["strategy"], who, result["sigma"] or 0.0


def sample_of(result: dict[str, Any]) -> Sample:
    """Success of the last adapters by world."""
    last = [each for each in result["evaluations"] if each["temperature"]][-1]
    tasks = last["tasks"]
    return {name: Rate(share, tasks, tasks) for name, share in last["success"].items()}


def summarized(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The table's lines as data: shares with their limits, and what was given away at most."""
    by_line: dict[Line, list[dict[str, Any]]] = {}
    for result in results:
        by_line.setdefault(line_of(result), []).append(result)
    lines = []
    for key in sorted(by_line):
        runs = {result["seed"]: result for result in by_line[key]}
        summary = statistics.summarize({seed: sample_of(run) for seed, run in runs.items()})
        model, strategy, who, sigma = key
        spent = [each for run in runs.values() for each in run["epsilon"].values() if each]
        lines.append(
            {
                "model": model,
                "strategy": strategy,
                "who": who,
                "sigma": sigma,
                "epsilon": max(spent, default=None),
                "delta": (next(iter(runs.values()))["spec"].get("privacy") or {}).get("delta"),
                "seeds": sorted(runs),
                "tasks": next(iter(runs.values()))["evaluations"][-1]["tasks"],
                "seconds": sum(run["wallSeconds"] for run in runs.values()) / len(runs),
                **_shares(summary),
            }
        )
    return lines


def _shares(summary: Summary) -> dict[str, Any]:
    def three(interval: Any) -> list[float]:
        return [round(value, 4) for value in (interval.value, interval.low, interval.high)]

    worlds = {name: three(interval) for name, interval in summary.environments.items()}
    return {"worlds": worlds, "macro": three(summary.macro)}


def main() -> None:
    """Play one federation, or show what many came to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="play one federation")
    private_play.add_flags(run)
    run.add_argument("--alone", action="store_true", help="no merge: each silo evolves alone")
    run.add_argument("--split", nargs="+", choices=("test", "validation"), help="held-out tasks")
    show = commands.add_parser("show", help="print the table of a folder's results")
    show.add_argument("folder", type=Path, nargs="+")
    show.add_argument("--json", type=Path, help="write the table's data there, too")
    given = parser.parse_args()
    if given.command == "run":
        private_play.play(given, PrivatePlay)
        return
    results = [each for path in given.folder for each in private_play.read_results(path)]
    lines = summarized(results)
    print(privacy_tables.success(lines))
    if given.json:
        privacy_tables.write(given.json, privacy_tables.document(lines, results))


if __name__ == "__main__":
    main()
