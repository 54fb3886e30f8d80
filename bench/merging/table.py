"""A table of docs/results.md from the results that question.py and the product left.

python bench/merging/table.py merging > docs/results/compare-smollm2-merging.json
python bench/merging/table.py merging-related > docs/results/compare-smollm2-merging-related.json
python bench/merging/table.py scale     # the table of more and more silos in bench/README.md
"""

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from hansa.compare import collect, comparison, results, table
from hansa.compare.comparison import Run
from hansa.compare.results import Communication, Result, Row

RESULTS = Path(__file__).with_name("results")
EXAMPLES = Path(__file__).parents[2] / "examples/04-real-model"
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
MERGES = ("mean", "auto", "bounded", "regmean")
"""`bounded` is auto with a step of at most 4; with five silos no step is longer."""


def result(run: Run, name: str) -> Result:
    """A run's result, as `hansa compare` would have written it, or has."""
    text = (RESULTS / f"{name}-{run.seed}.json").read_text()
    document = json.loads(text)
    if "rows" in document:
        return Result.model_validate_json(text)
    rows = [row for measured in document["evaluations"] for row in _rows(run, document, measured)]
    changes = {
        "rows": rows,
        "final": max(row.round for row in rows),
        "communication": Communication(shares="adapters"),
        "wall_seconds": document["wallSeconds"],
    }
    return collect.empty(run, document["device"]).model_copy(update=changes)


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
        row = results.row(run, name, _tallies(success, tasks), measured["round"], own)
        rows.append(row.model_copy(update={"greedy": share}))
    return rows


def _tallies(success: float, tasks: int) -> dict[str, list[int]]:
    """Which tasks were solved was not kept; how many is what intervals need."""
    return {str(task): [int(task < round(success * tasks)), 1] for task in range(tasks)}


def scale() -> str:
    """Success by merge and number of silos, mean over seeds, sampled and greedy; each seed's."""
    runs: dict[tuple[str, int], list[list[float]]] = {}
    for path in sorted((RESULTS / "scale").glob("*.json")):
        merge, silos, _ = path.stem.split("-")
        last = json.loads(path.read_text())["evaluations"][-2:]
        success = [100 * statistics.mean(each["success"].values()) for each in last]
        runs.setdefault((merge, int(silos)), []).append(success)
    lines = ["| silos | " + " | ".join(MERGES) + " |", "|---|" + "---|" * len(MERGES)]
    for count in sorted({count for _, count in runs}):
        cells = [_cell(runs.get((merge, count)) or runs["auto", count]) for merge in MERGES]
        lines.append(f"| {count} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(seeds: list[list[float]]) -> str:
    sampled, greedy = (statistics.mean(each) for each in zip(*seeds, strict=True))
    return f"{sampled:.1f} ({', '.join(f'{each[0]:.1f}' for each in seeds)}; greedy {greedy:.1f})"


def main() -> None:
    """Print the comparison's data, or the table of more and more silos."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("comparison", choices=(*FILES, "scale"), help="which table")
    name = parser.parse_args().comparison
    if name == "scale":
        print(scale())
        return
    wanted, files = comparison.read(EXAMPLES / f"{name}.yaml", here=False), FILES[name]
    made = {run.id: result(run, files[run.method]) for run in wanted.runs}
    data = table.to_data(table.build(wanted, made))
    for line in data["table"]:
        line["shares"] = ""  # most were merged in memory, where nothing is sent
    print(json.dumps(data, indent=1))


if __name__ == "__main__":
    main()
