"""What privacy costs in success: one federation, and the table of many.

    python bench/privacy/costs.py run --sigma 1 --seed 1 --out runs/privacy/federated-1-1.json
    python bench/privacy/costs.py run --sigma 1 --seed 1 --alone --out runs/privacy/alone-1-1.json
    python bench/privacy/costs.py show runs/privacy --json docs/results/privacy.json

A run is all silos in one process, by the client's own code: they play, keep what succeeded, train
under noise and pay for it. Success is exact, on held-out tasks: what a silo would tell of it has
noise as well. Settings are tiny.yaml's; smollm2.yaml is for a GPU.
"""

import argparse
from typing import Any

import private_play
from private_play import PrivatePlay

from hansa.compare import statistics
from hansa.compare.statistics import Rate, Sample, Summary
from tools.pages import privacy_tables

Line = tuple[str, str, str, float]
"""Model, who plays (start, alone or federated), strategy, and noise; 0 is no privacy."""


class Measured(PrivatePlay):
    """A federation whose start is measured, too, once for all noises of a seed."""

    def run(self) -> None:
        if self._given.sigma is None and not self._given.alone:
            self._evaluate(0, is_last=False)
        super().run()


def lines_of(result: dict[str, Any]) -> dict[Line, dict[str, Any]]:
    """Which lines of the table a run belongs to, and the evaluation that counts there."""
    model, sigma = result["spec"]["model"]["source"], result["sigma"] or 0.0
    who = "alone" if result["merge"] == "alone" else "federated"
    made = {(model, who, result["strategy"], sigma): result["evaluations"][-1]}
    if result["evaluations"][0]["round"] == 0:
        made[model, "start", "", 0.0] = result["evaluations"][0]
    return made


def sample_of(measured: dict[str, Any]) -> Sample:
    """Success by world."""
    tasks = measured["tasks"]
    return {name: Rate(share, tasks, tasks) for name, share in measured["success"].items()}


def summarized(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The table's lines as data: shares with their limits, and what was given away at most."""
    by_line: dict[Line, list[tuple[dict[str, Any], dict[str, Any]]]] = {}
    for result in results:
        for line, measured in lines_of(result).items():
            by_line.setdefault(line, []).append((result, measured))
    order = ("start", "alone", "federated")
    keys = sorted(by_line, key=lambda key: (key[0], order.index(key[1]), key[2] != "mean", key[3]))
    return [_line(key, by_line[key]) for key in keys]


def _line(key: Line, runs: list[tuple[dict[str, Any], dict[str, Any]]]) -> dict[str, Any]:
    model, who, strategy, sigma = key
    summary = statistics.summarize({run["seed"]: sample_of(own) for run, own in runs})
    spent = [each for run, _ in runs for each in run["epsilon"].values() if each and sigma]
    first, measured = runs[0]
    return {
        "model": model,
        "strategy": strategy,
        "who": who,
        "sigma": sigma,
        "epsilon": max(spent, default=None),
        "delta": (first["spec"].get("privacy") or {}).get("delta"),
        "seeds": sorted(run["seed"] for run, _ in runs),
        "tasks": measured["tasks"],
        "seconds": sum(run["wallSeconds"] for run, _ in runs) / len(runs),
        **_shares(summary),
    }


def _shares(summary: Summary) -> dict[str, Any]:
    def three(interval: Any) -> list[float]:
        return [round(value, 4) for value in (interval.value, interval.low, interval.high)]

    worlds = {name: three(interval) for name, interval in summary.environments.items()}
    return {"worlds": worlds, "macro": three(summary.macro)}


def add_flags(run: argparse.ArgumentParser) -> None:
    """Those of a run whose success is measured."""
    run.add_argument("--alone", action="store_true", help="no merge: each silo evolves alone")
    run.add_argument("--split", nargs="+", choices=("test", "validation"), help="held-out tasks")


def main() -> None:
    """Play one federation, or show what many came to."""
    table = privacy_tables.success
    private_play.command(__doc__, Measured, "evaluations", add_flags, summarized, table)


if __name__ == "__main__":
    main()
