"""Published comparisons: the counts that docs/results keeps of each, and the tables made of them.

    hansa compare examples/05-compare/tiny.yaml --out runs/tiny
    python -m tools.pages.comparisons examples/05-compare/tiny.yaml runs/tiny compare-tiny

A file names its comparison and has one line for each run: how many held-out tasks were solved after
each round, and what the run cost. Means, intervals and differences are computed from these.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from hansa.compare import comparison, results, table
from hansa.compare.comparison import CheckedComparison, Run
from hansa.compare.results import Communication, Row, RunResult, RunWork
from hansa.compare.table import ComparisonTable
from tools.pages import kept

ROOT = Path(__file__).parents[2]
WORK = ("explored", "succeeded", "steps", "tokens")
"""What pages tell of a run's work."""
Line = dict[str, Any]


def compact(file: Path, wanted: CheckedComparison, known: Mapping[str, RunResult]) -> Line:
    """What is kept of a comparison; `file` describes it."""
    names = list(wanted.environments)
    runs = [_line(known[run.id], names) for run in wanted.runs if run.id in known]
    return {"comparison": file.resolve().relative_to(ROOT).as_posix(), "runs": runs}


@cache
def read(path: Path) -> ComparisonTable:
    """The table of a comparison, from its kept counts."""
    document: Line = json.loads(path.read_text())
    wanted = comparison.read(ROOT / document["comparison"], here=False)
    lines = {f"{line['method']}-{line['seed']}": line for line in document["runs"]}
    strange = lines.keys() - {run.id for run in wanted.runs}
    if strange:
        raise ValueError(f"{path}: runs: got {sorted(strange)}, of no method and seed")
    names = list(wanted.environments)
    known = {run.id: _result(run, lines[run.id], names) for run in wanted.runs if run.id in lines}
    return table.build(wanted, known)


def to_data(of: ComparisonTable) -> Line:
    """As `hansa compare` writes it; what was merged in memory has no bytes and no time."""
    data = table.to_data(of)
    for line in data["table"]:
        if line["shares"] == "adapters" and not line["megabytes"]:
            line["shares"] = ""
    return data


def _line(result: RunResult, names: list[str]) -> Line:
    return {
        "method": result.method,
        "seed": result.seed,
        "machine": result.machine,
        "seconds": result.wall_seconds,
        "shares": result.communication.shares,
        "bytes": result.communication.up + result.communication.down,
        **{name: getattr(result.work, name) for name in WORK},
        **({"serves": result.serves} if result.serves else {}),
        "final": result.final,
        "solved": _solved(result.rows, names),
    }


def _solved(rows: Iterable[Row], names: list[str]) -> dict[str, list[list[int] | None]]:
    """Solved, played and greedily solved tasks of each environment, by round and owner."""
    solved: dict[str, list[list[int] | None]] = {}
    for row in rows:
        if row.tasks != row.episodes:
            got = f"{row.episodes} episodes of {row.tasks} tasks"
            raise ValueError(f"{row.method}-{row.seed}: got {got}, expected one of each")
        counts = [round(row.success * row.episodes), row.episodes]
        greedy = [] if row.greedy is None else [round(row.greedy * row.tasks)]
        each = solved.setdefault(f"{row.round} {row.of}".rstrip(), [None] * len(names))
        each[names.index(row.environment)] = [*counts, *greedy]
    return solved


def _result(run: Run, line: Line, names: list[str]) -> RunResult:
    rows = [
        _row(run, name, counts, *adapter.split())
        for adapter, each in line["solved"].items()
        for name, counts in zip(names, each, strict=True)
        if counts is not None
    ]
    return RunResult(
        program="",
        method=run.method,
        base=run.base,
        seed=run.seed,
        spec={},
        rows=rows,
        final=line["final"],
        serves=line.get("serves", {}),
        communication=Communication(shares=line["shares"], up=line["bytes"]),
        work=RunWork(**{name: line[name] for name in WORK}),
        wall_seconds=line["seconds"],
        machine=line["machine"],
    )


def _row(run: Run, environment: str, counts: list[int], round_: str, of: str = "") -> Row:
    solved, played, *greedy = counts
    sampled = tallies(solved, played)
    greedily = tallies(greedy[0], played) if greedy else {}
    return results.row(run, environment, sampled, int(round_), of, greedily)


def tallies(solved: int, played: int) -> dict[str, list[int]]:
    """Which tasks were solved is not kept; how many is what intervals need."""
    return {str(task): [int(task < solved), 1] for task in range(played)}


def main() -> None:
    """Keep the counts of a comparison that was run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("comparison", type=Path, help="its file")
    parser.add_argument("out", type=Path, help="the folder that `hansa compare` wrote to")
    parser.add_argument("name", help="of the file in docs/results")
    given = parser.parse_args()
    wanted = comparison.read(given.comparison, here=False)
    document = compact(given.comparison, wanted, results.read_results(given.out, wanted))
    kept.write(kept.RESULTS / f"{given.name}.json", document)


if __name__ == "__main__":
    main()
