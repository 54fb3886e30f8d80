"""Which ways to evolve bring more: one small file of many results of question.py.

    python bench/merging/evolve.py runs/evolve --json docs/results/evolve.json
    python -m tools.results_page      # its figures into the page

Results are named WAY-SETTING-SEED.json, for example grpo-few-1.json; the way `base` is what the
others of a setting are compared with. A run that is not over is named and left out.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from hansa.compare import statistics
from hansa.compare.statistics import Rate, Sample
from hansa.intervals import Interval
from hansa.program import replace
from tools.pages.evolve_tables import Evolved
from tools.pages.evolve_ways import BASE, SETTINGS, is_known

Run = dict[str, Any]
Seeds = dict[int, Run]
"""Results of one way in one setting, by seed."""


def read(folder: Path, split: str) -> dict[str, dict[str, Seeds]]:
    """The runs that are over, by setting and way."""
    runs: dict[str, dict[str, Seeds]] = {name: {} for name in SETTINGS}
    for path in sorted(folder.glob("*-*-*.json")):
        way, setting, seed = path.stem.rsplit("-", 2)
        run = json.loads(path.read_text())
        if setting not in SETTINGS or not is_known(way):
            sys.exit(
                f"error: {path.name}: got {way} and {setting}, expected names in evolve_ways.py"
            )
        if run["seed"] != int(seed):
            sys.exit(f"error: {path.name}: seed: got {run['seed']}, expected {seed}")
        if last(run, split):
            runs[setting].setdefault(way, {})[run["seed"]] = run
        else:
            print(f"not over, left out: {path.name}", file=sys.stderr)
    for setting, ways in runs.items():
        for way, seeds in ways.items():
            if not seeds.keys() & ways.get(BASE, {}).keys():
                sys.exit(
                    f"error: {way}-{setting}: got seeds {sorted(seeds)}, expected one of {BASE}'s"
                )
    return {setting: ways for setting, ways in runs.items() if ways}


def last(run: Run, split: str) -> tuple[Run, Run] | None:
    """The evaluations that count, sampled and greedy; nothing while one of them is missing."""
    rounds = run["spec"]["rounds"]
    own = [e for e in run["evaluations"] if e["round"] == rounds and e["split"] == split]
    sampled, greedy = ([e for e in own if bool(e["temperature"]) is hot] for hot in (True, False))
    return (sampled[-1], greedy[-1]) if sampled and greedy else None


def samples(runs: Seeds, split: str) -> dict[int, Sample]:
    """Rates by seed and world, as the intervals of all comparisons take them."""
    made: dict[int, Sample] = {}
    for seed, run in sorted(runs.items()):
        both = last(run, split)
        assert both, "only runs that are over were read"
        sampled, greedy = both
        tasks = sampled["tasks"]
        made[seed] = {
            name: Rate(rate, effective=tasks, weight=tasks, greedy=greedy["success"][name])
            for name, rate in sampled["success"].items()
        }
    return made


def line(setting: str, way: str, runs: Seeds, base: Seeds, split: str) -> dict[str, Any]:
    """One line of the table."""
    own = samples(runs, split)
    summary = statistics.summarize(own)
    against = None if way == BASE else statistics.difference(own, samples(base, split))
    counts = [counted(run) for run in runs.values()]
    return {
        "setting": setting,
        "way": way,
        "seeds": sorted(own),
        "macro": three(summary.macro),
        "greedy": round(summary.greedy, 4) if summary.greedy is not None else None,
        "against": three(against) if against else None,
        "worlds": {
            name: {
                "success": three(interval),
                "won": [round(rates[name].success * rates[name].weight) for rates in own.values()],
                "greedyWon": [
                    round((rates[name].greedy or 0) * rates[name].weight) for rates in own.values()
                ],
                "tasks": [round(rates[name].weight) for rates in own.values()],
            }
            for name, interval in summary.environments.items()
        },
        **{name: rounded([each[name] for each in counts]) for name in counts[0]},
    }


def rounded(values: list[int | None]) -> float | None:
    """Their mean to a tenth, where all are known."""
    mean = statistics.mean_of(values)
    return mean if mean is None else round(mean, 1)


def counted(run: Run) -> dict[str, int | None]:
    """What a run did, over its rounds and silos; nothing where an older result does not say."""
    silos = [silo for each in run["rounds"] for silo in each["silos"].values()]
    has_steps = all("steps" in silo for silo in silos)
    return {
        "explored": sum(silo["explored"] for silo in silos),
        "aided": sum(silo.get("aided", 0) for silo in silos),
        "relabelled": sum(silo.get("relabelled", 0) for silo in silos),
        "tokens": sum(silo["learnedTokens"] for silo in silos),
        "steps": sum(silo["steps"] for silo in silos) if has_steps else None,
    }


def three(interval: Interval) -> list[float]:
    """As comparisons write it."""
    return [interval.low, interval.value, interval.high]


def origin(setting: str, runs: list[Run]) -> dict[str, Any]:
    """On what a setting was measured."""
    return {
        "name": setting,
        "federation": runs[0]["flags"]["federation"],
        "model": runs[0]["spec"]["model"]["source"],
        "rounds": runs[0]["spec"]["rounds"],
        "tasks": runs[0]["spec"]["evaluation"]["tasks"],
        "machine": "; ".join(sorted({f"{run['device']}, torch {run['torch']}" for run in runs})),
    }


def document(folder: Path, split: str) -> dict[str, Any]:
    """All of it."""
    runs = read(folder, split)
    return {
        "split": split,
        "settings": [
            origin(setting, [run for seeds in ways.values() for run in seeds.values()])
            for setting, ways in runs.items()
        ],
        "table": [
            line(setting, way, seeds, ways[BASE], split)
            for setting, ways in runs.items()
            for way, seeds in ways.items()
        ],
    }


def main() -> None:
    """Write the file, and print each way's difference from today's."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("results", type=Path, help="folder of question.py's results")
    parser.add_argument("--json", type=Path, required=True, help="the file to write")
    parser.add_argument("--split", choices=("test", "validation"), default="test")
    given = parser.parse_args()
    made = document(given.results, given.split)
    replace(given.json, compact(made).encode())
    print(Evolved(made).overview)


def compact(made: dict[str, Any]) -> str:
    """JSON with one line for each line of a table."""
    parts = [
        f'"{name}": '
        + (
            "[\n" + ",\n".join(map(json.dumps, value)) + "\n]"
            if isinstance(value, list)
            else json.dumps(value)
        )
        for name, value in made.items()
    ]
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    main()
