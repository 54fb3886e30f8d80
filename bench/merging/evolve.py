"""Which ways to evolve bring more: one small file of many results of question.py.

    python bench/merging/evolve.py runs/evolve --json docs/results/evolve.json --after smol=5
    python -m tools.results_page      # its figures into the page

Results are named WAY-SETTING-SEED.json, for example grpo-few-1.json; the way `base` is what the
others of a setting are compared with. A run that is not over is named and left out.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hansa.compare import statistics
from hansa.compare.statistics import Rate, Sample
from tools.pages import kept
from tools.pages.evolve_tables import Evolved
from tools.pages.evolve_ways import BASE, SETTINGS, WAYS


@dataclass(frozen=True)
class Run:
    """What counts of a result."""

    sample: Sample
    """Its rates by world."""
    counts: dict[str, int | None]
    """What it did until then; nothing where an older result does not say."""
    origin: dict[str, Any]
    """On what it was measured."""


Seeds = dict[int, Run]
"""Runs of one way in one setting, by seed."""


def read(folder: Path, split: str, after: Mapping[str, int]) -> dict[str, dict[str, Seeds]]:
    """The runs that are over, by setting and way."""
    runs: dict[str, dict[str, Seeds]] = {name: {} for name in SETTINGS}
    for path in sorted(folder.glob("*-*-*.json")):
        way, setting, seed = path.stem.rsplit("-", 2)
        if setting not in SETTINGS or way not in WAYS:
            sys.exit(f"error: {path.name}: got {way} and {setting}, expected evolve_ways.py's")
        result = json.loads(path.read_text())
        if result["seed"] != int(seed):
            sys.exit(f"error: {path.name}: seed: got {result['seed']}, expected {seed}")
        if run := run_of(result, split, after.get(setting, result["spec"]["rounds"])):
            runs[setting].setdefault(way, {})[int(seed)] = run
        else:
            print(f"not over, left out: {path.name}", file=sys.stderr)
    for setting, ways in runs.items():
        for way, seeds in ways.items():
            if not seeds.keys() & ways.get(BASE, {}).keys():
                known = sorted(seeds)
                sys.exit(f"error: {way}-{setting}: got seeds {known}, expected one of {BASE}'s")
    return {setting: ways for setting, ways in runs.items() if ways}


def run_of(result: dict[str, Any], split: str, round_: int) -> Run | None:
    """A run after a round, nothing if it did not get there; greedy play comes with the last."""
    own = [e for e in result["evaluations"] if e["round"] == round_ and e["split"] == split]
    sampled, greedy = ([e for e in own if bool(e["temperature"]) is hot] for hot in (True, False))
    rounds = result["spec"]["rounds"]
    if not sampled or (round_ == rounds and not greedy):
        return None
    tasks = sampled[-1]["tasks"]
    sample = {
        name: Rate(rate, tasks, tasks, greedy[-1]["success"][name] if greedy else None)
        for name, rate in sampled[-1]["success"].items()
    }
    origin = {
        "federation": result["flags"]["federation"],
        "model": result["spec"]["model"]["source"],
        "rounds": round_,
        "of": rounds,
        "tasks": tasks,
        "machine": f"{result['device']}, torch {result['torch']}",
    }
    silos = [s for each in result["rounds"][:round_] for s in each["silos"].values()]
    return Run(sample, counted(silos), origin)


def counted(silos: list[dict[str, Any]]) -> dict[str, int | None]:
    """What silos did in all rounds."""
    has_steps = all("steps" in silo for silo in silos)
    return {
        "explored": sum(silo["explored"] for silo in silos),
        "aided": sum(silo.get("aided", 0) for silo in silos),
        "aidedWon": sum(silo.get("aidedSuccesses", 0) for silo in silos),
        "relabelled": sum(silo.get("relabelled", 0) for silo in silos),
        "tokens": sum(silo["learnedTokens"] for silo in silos),
        "steps": sum(silo["steps"] for silo in silos) if has_steps else None,
    }


def line(setting: str, way: str, runs: Seeds) -> dict[str, Any]:
    """What is kept of a way's runs: tasks solved in each seed, and what the runs did on average."""
    own = {seed: runs[seed].sample for seed in sorted(runs)}
    counts = {name: [run.counts[name] for run in runs.values()] for name in runs[min(runs)].counts}
    means = {name: statistics.average(each) for name, each in counts.items()}
    rates = [rate for sample in own.values() for rate in sample.values()]
    names = own[min(own)]
    return {
        "setting": setting,
        "way": way,
        "seeds": list(own),
        "won": {
            name: [round(each[name].success * each[name].weight) for each in own.values()]
            for name in names
        },
        "greedyWon": None
        if any(rate.greedy is None for rate in rates)
        else {name: [_greedily(each[name]) for each in own.values()] for name in names},
        **{name: None if mean is None else round(mean, 1) for name, mean in means.items()},
    }


def _greedily(rate: Rate) -> int:
    return round((rate.greedy or 0) * rate.weight)


def origin(setting: str, runs: list[Run]) -> dict[str, Any]:
    """On what a setting was measured."""
    machines = "; ".join(sorted({run.origin["machine"] for run in runs}))
    return {"name": setting, **runs[0].origin, "machine": machines}


def document(runs: dict[str, dict[str, Seeds]]) -> dict[str, Any]:
    """All of it."""
    return {
        "settings": [
            origin(setting, [run for seeds in ways.values() for run in seeds.values()])
            for setting, ways in runs.items()
        ],
        "table": [
            line(setting, way, seeds)
            for setting, ways in runs.items()
            for way, seeds in ways.items()
        ],
    }


def read_after(word: str) -> tuple[str, int]:
    """smol=5"""
    setting, _, round_ = word.partition("=")
    if setting not in SETTINGS or not round_.isdecimal():
        raise argparse.ArgumentTypeError(f"got {word}, expected a setting and a round: smol=5")
    return setting, int(round_)


def main() -> None:
    """Write the file, and print each way's difference from the usual one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("results", type=Path, help="folder of question.py's results")
    parser.add_argument("--json", type=Path, required=True, help="the file to write")
    parser.add_argument("--split", choices=("test", "validation"), default="test")
    parser.add_argument(
        "--after",
        type=read_after,
        action="append",
        default=[],
        metavar="SETTING=ROUND",
        help="where runs were stopped: the round that counts",
    )
    given = parser.parse_args()
    made = document(read(given.results, given.split, dict(given.after)))
    kept.write(given.json, made)
    print(Evolved(made).overview)


if __name__ == "__main__":
    main()
