"""Results of made-up runs, and the tables that they give."""

from typing import Any

from hansa.compare import results, table
from hansa.compare.comparison import CheckedComparison, Run
from hansa.compare.results import Communication, RunResult, RunWork
from tests.support.builders import make_federation

ENVIRONMENTS = {"babyai": "babyai", "maze": "maze", "wordle": "wordle"}


def make_run(method: str, seed: int, base: str = "", **fields: Any) -> Run:
    federation = make_federation(**fields)
    known = base or method
    return Run(method=method, base=known, seed=seed, federation=federation, silos=federation)


def tasks(won: int, of: int) -> dict[str, list[int]]:
    return {f"task{i}": [int(i < won), 1] for i in range(of)}


def make_result(run: Run, *scores: tuple[str, int, int, str], **fields: Any) -> RunResult:
    """A result with rows of (environment, successes of 100, round, whose adapter)."""
    rows = [results.row(run, name, tasks(won, 100), round_, of) for name, won, round_, of in scores]
    values: dict[str, Any] = {
        "program": "1",
        "method": run.method,
        "base": run.base,
        "seed": run.seed,
        "spec": run.federation.spec.to_json(),
        "rows": rows,
        "final": max(row.round for row in rows),
        "communication": Communication(shares="adapters", up=3_000_000, down=1_000_000),
        "work": RunWork(steps=10),
        "wall_seconds": 60.0,
        "machine": "here",
    }
    return RunResult(**{**values, **fields})


def make_wanted(*runs: Run, reference: str = "fed-se") -> CheckedComparison:
    methods = list(dict.fromkeys(run.method for run in runs))
    return CheckedComparison(
        name="fed",
        title="a title",
        reference=reference if reference in methods else "",
        methods=methods,
        bases={run.method: run.base for run in runs},
        environments=ENVIRONMENTS,
        runs=list(runs),
    )


def shared(run: Run, *won: int, round_: int = 2) -> RunResult:
    return make_result(run, *((n, w, round_, "") for n, w in zip(ENVIRONMENTS, won, strict=True)))


def built(*results_: tuple[Run, RunResult | None]) -> table.ComparisonTable:
    wanted = make_wanted(*(run for run, _ in results_))
    return table.build(wanted, {run.id: result for run, result in results_ if result})
