"""Keep what pages show of the results that question.py and the product left.

    python bench/merging/table.py runs/merging
    python -m tools.pages.merging_tables      # the tables of bench/README.md
    python -m tools.results_page              # those of docs/results.md

Results are named RUN-SEED.json, in folders below the named one: `scale/` has those with more and
more silos, `validation/` those on validation tasks, `product/` those of `hansa compare`.
"""

import argparse
import json
from pathlib import Path
from statistics import fmean
from typing import Any

from hansa.compare import collect, comparison, results, table
from hansa.compare.comparison import Run
from hansa.compare.results import Communication, Row, RunResult
from tools.pages import comparisons, kept, merging_tables

EXAMPLES = comparisons.ROOT / "examples/04-real-model"
FILES = {
    "merging": {
        "regmean": "product/regmean",
        "fed-se+auto": "auto-capped",
        "fedit+regmean": "fedit-regmean-capped",
        "fedit+auto": "fedit-auto-capped",
        "local-evolution": "alone-capped",
    },
    "merging-related": {
        "regmean": "related-regmean",
        "fed-se+auto": "related-auto",
        "fedit+regmean": "related-fedit-regmean",
        "local-evolution": "related-alone",
    },
}
"""Which results belong to which method, by comparison."""
Shares = dict[str, dict[str, float]]
"""Success in each environment, by round."""


def result(folder: Path, run: Run, name: str) -> RunResult:
    """A run's result, as `hansa compare` would have written it, or has.

    Most were merged in memory, where nothing is sent, so no bytes are kept of any.
    """
    document = json.loads((folder / f"{name}-{run.seed}.json").read_text())
    sent = Communication(shares="adapters")
    if "rows" in document:
        return RunResult.model_validate(document).model_copy(update={"communication": sent})
    rows = [row for measured in document["evaluations"] for row in _rows(run, document, measured)]
    changes = {
        "rows": rows,
        "final": max(row.round for row in rows),
        "communication": sent,
        "wall_seconds": document["wallSeconds"],
    }
    return collect.make_empty_result(run, document["device"]).model_copy(update=changes)


def _rows(run: Run, document: dict[str, Any], measured: dict[str, Any]) -> list[Row]:
    """The sampled evaluation of a round, with the greedy one of that round beside it."""
    if not measured["temperature"]:
        return []
    greedy = [
        each["success"]
        for each in document["evaluations"]
        if each["round"] == measured["round"] and not each["temperature"]
    ]
    rows = []
    for name, success in measured["success"].items():
        own = name if document["merge"] == "alone" else ""
        tasks, share = measured["tasks"], greedy[0][name] if greedy else None
        tallies = comparisons.tallies(round(success * tasks), tasks)
        row = results.row(run, name, tallies, measured["round"], own)
        rows.append(row.model_copy(update={"greedy": share}))
    return rows


def shares(document: dict[str, Any]) -> Shares:
    """Success in each environment, by round; greedy play has a name of its own."""
    if "rows" in document:
        result = RunResult.model_validate(document)
        names = sorted({row.environment for row in result.rows})
        (sample,) = table.list_last_rates([result], names).values()
        return {str(result.final): {name: rate.success for name, rate in sample.items()}}
    return {
        f"{each['round']}{'' if each['temperature'] else ' greedy'}": each["success"]
        for each in document["evaluations"]
    }


def means(folder: Path) -> dict[str, Any]:
    """What the tables of bench/README.md show of all results below a folder."""
    runs: dict[str, dict[int, Shares]] = {}
    for path in sorted(folder.rglob("*.json")):
        name, _, seed = path.relative_to(folder).with_suffix("").as_posix().rpartition("-")
        runs.setdefault(name, {})[int(seed)] = shares(json.loads(path.read_text()))
    lines = [
        {"run": name, "seed": seed, "success": {at: _mean(each) for at, each in own.items()}}
        for name, seeds in runs.items()
        for seed, own in sorted(seeds.items())
    ]
    shown = sorted({run for _, run, _ in merging_tables.BOUNDED})
    worlds = [{"run": name, "success": _by_world(list(runs[name].values()))} for name in shown]
    return {"runs": lines, "worlds": worlds}


def _mean(success: dict[str, float]) -> float:
    return round(fmean(success.values()), 6)


def _by_world(seeds: list[Shares]) -> dict[str, list[float]]:
    return {
        at: [round(fmean(each[at][name] for each in seeds), 6) for name in merging_tables.WORLDS]
        for at in seeds[0]
    }


def main() -> None:
    """Write the files of docs/results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="folder of results")
    folder = parser.parse_args().folder
    kept.write(merging_tables.FILE, means(folder))
    for name, files in FILES.items():
        file = EXAMPLES / f"{name}.yaml"
        wanted = comparison.read(file, here=False)
        made = {run.id: result(folder, run, files[run.method]) for run in wanted.runs}
        path = kept.RESULTS / f"compare-smollm2-{name}.json"
        kept.write(path, comparisons.compact(file, wanted, made))


if __name__ == "__main__":
    main()
