"""The table of docs/results.md from the results that question.py left.

python bench/merging/table.py > docs/results/compare-smollm2-merging.json
"""

import json
from pathlib import Path
from typing import Any

from hansa.compare import collect, comparison, results, table
from hansa.compare.comparison import Run
from hansa.compare.results import Communication, Result, Row

RESULTS = Path(__file__).with_name("results")
COMPARISON = Path(__file__).parents[2] / "examples/04-real-model/merging.yaml"
FILES = {
    "regmean": "regmean-capped",
    "fed-se+auto": "auto-capped",
    "fedit+regmean": "fedit-regmean-capped",
    "fedit+auto": "fedit-auto-capped",
    "local-evolution": "alone-capped",
}
"""Which results belong to which method of the comparison."""


def result(run: Run) -> Result:
    """A run's result, as `hansa compare` would have written it."""
    document = json.loads((RESULTS / f"{FILES[run.method]}-{run.seed}.json").read_text())
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


def main() -> None:
    """Print the comparison's data."""
    wanted = comparison.read(COMPARISON, here=False)
    data = table.to_data(table.build(wanted, {run.id: result(run) for run in wanted.runs}))
    for line in data["table"]:
        line["shares"] = ""  # merged in memory: nothing was sent, and time is no product's
    print(json.dumps(data, indent=1))


if __name__ == "__main__":
    main()
