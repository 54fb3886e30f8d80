"""The table of a comparison: a line per method, made from the files of its runs alone."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hansa.compare import statistics
from hansa.compare.comparison import CheckedComparison
from hansa.compare.methods import METHODS
from hansa.compare.results import Row, RunResult
from hansa.compare.statistics import Rate, Sample, Summary
from hansa.core.stats import Interval

EVERYWHERE = ", all worlds"
"""What the second line of a local method is called: its adapters are only good at home."""


@dataclass(frozen=True, kw_only=True)
class TableLine:
    """One line of the table."""

    name: str
    """What it is called."""
    method: str
    """The method that it is about."""
    about: str
    """What the method is, in a few words."""
    summary: Summary
    """Success after the last round."""
    against: Interval | None
    """How much higher its macro average is than the reference's."""
    curve: list[tuple[int, Interval]] = field(default_factory=list)
    """Macro average by round."""
    curves: dict[str, list[tuple[int, Interval]]] = field(default_factory=dict)
    """Success by round in each environment."""
    shares: str = ""
    """What had to be sent."""
    megabytes: float = 0.0
    """MB sent and received by all silos in a run."""
    seconds: float = 0.0
    """Seconds that a run took."""
    steps: float = 0.0
    """Optimizer steps of a run."""


@dataclass(frozen=True, kw_only=True)
class ComparisonTable:
    """All lines, and what is not there yet."""

    title: str
    """What is compared."""
    reference: str
    """The method that others are compared with; empty: none."""
    environments: dict[str, str]
    """World of each environment."""
    lines: list[TableLine]
    """In the comparison's order."""
    missing: list[str]
    """Runs without a result."""
    results: list[RunResult]
    """What the table was made from."""


def build(wanted: CheckedComparison, results: dict[str, RunResult]) -> ComparisonTable:
    """The table of what is there."""
    done = [results[run.id] for run in wanted.runs if run.id in results]
    reference = list_last_rates(
        [r for r in done if r.method == wanted.reference], wanted.environments
    )
    whole = {name for name, one in results.items() if list_last_rates([one], wanted.environments)}
    lines: list[TableLine] = []
    for method in wanted.methods:
        mine = [result for result in done if result.method == method]
        if mine:
            lines += _lines(method, mine, wanted, reference)
    return ComparisonTable(
        title=wanted.title,
        reference=wanted.reference,
        environments=wanted.environments,
        lines=lines,
        missing=[run.id for run in wanted.runs if run.id not in whole],
        results=done,
    )


def _lines(
    method: str, mine: Sequence[RunResult], wanted: CheckedComparison, reference: dict[int, Sample]
) -> list[TableLine]:
    home = list_last_rates(mine, wanted.environments)
    if not home:
        return []
    about = METHODS[wanted.bases[method]].about
    if wanted.bases[method] != method:
        about = f"{wanted.bases[method]}, changed"
    count = len(mine)
    sent = [result.communication for result in mine]
    curve, curves = _curves(mine, wanted)
    line = TableLine(
        name=method,
        method=method,
        about=about,
        summary=statistics.summarize(home),
        against=_compare_with_reference(method, home, wanted, reference),
        curve=curve,
        curves=curves,
        shares=sent[0].shares,
        megabytes=sum(each.up + each.down for each in sent) / count / 1e6,
        seconds=sum(result.wall_seconds for result in mine) / count,
        steps=sum(result.work.steps for result in mine) / count,
    )
    everywhere = {
        seed: s for r in mine for seed, s in [(r.seed, _average_everywhere(r, wanted))] if s
    }
    if not everywhere:
        return [line]
    wide = TableLine(
        name=method + EVERYWHERE,
        method=method,
        about="the same adapters, each in every world",
        summary=statistics.summarize(everywhere),
        against=_compare_with_reference(method + EVERYWHERE, everywhere, wanted, reference),
    )
    return [line, wide]


def _compare_with_reference(
    name: str, samples: dict[int, Sample], wanted: CheckedComparison, reference: dict[int, Sample]
) -> Interval | None:
    if not reference or name == wanted.reference:
        return None
    return statistics.estimate_difference(samples, reference)


def list_last_rates(mine: Iterable[RunResult], environments: Collection[str]) -> dict[int, Sample]:
    """Each seed's rates after its last round; adapters of their own are those at home.

    A silo that could not play the last shared adapter has no rate: that of an earlier one would
    pass for it.
    """
    samples = {}
    for result in mine:
        shared = result.communication.shares != "nothing"
        rows = [row for row in result.rows if row.of or not shared or row.round == result.final]
        sample = _collect_sample(rows, environments, result.final)
        if sample:
            samples[result.seed] = sample
    return samples


def _collect_sample(
    rows: Sequence[Row], environments: Collection[str], round_: int
) -> Sample | None:
    """The rates of the newest adapters up to a round; nothing where an environment has none."""
    newest: dict[str, Row] = {}
    for row in rows:
        if row.episodes and row.round <= round_ and row.of in ("", row.environment):
            known = newest.get(row.environment)
            if known is None or known.round <= row.round:
                newest[row.environment] = row
    if newest.keys() != set(environments):
        return None
    return {name: _rate([row]) for name, row in newest.items()}


def _average_everywhere(result: RunResult, wanted: CheckedComparison) -> Sample | None:
    """Rates in each environment as a mean over all silos' own adapters."""
    newest: dict[tuple[str, str], Row] = {}
    for row in result.rows:
        known = newest.get((row.of, row.environment))
        if row.episodes and row.of and (known is None or known.round <= row.round):
            newest[row.of, row.environment] = row
    owners = {of for of, _ in newest}
    if len(newest) < len(owners) * len(wanted.environments) or len(owners) < 2:
        return None
    return {
        name: _rate([row for (_, where), row in newest.items() if where == name])
        for name in wanted.environments
    }


def _rate(rows: Sequence[Row]) -> Rate:
    count = len(rows)
    return Rate(
        success=sum(row.success for row in rows) / count,
        effective=sum(row.effective for row in rows) / count,  # all play the same tasks
        weight=sum(row.episodes for row in rows) / count,
        greedy=statistics.average([row.greedy for row in rows]),
    )


def _curves(
    mine: Sequence[RunResult], wanted: CheckedComparison
) -> tuple[list[tuple[int, Interval]], dict[str, list[tuple[int, Interval]]]]:
    """Success by round: the macro average, and by environment."""
    rounds = sorted({row.round for result in mine for row in result.rows})
    macro: list[tuple[int, Interval]] = []
    each: dict[str, list[tuple[int, Interval]]] = {name: [] for name in wanted.environments}
    for round_ in rounds if len(rounds) > 1 else ():
        samples = {
            r.seed: s for r in mine if (s := _collect_sample(r.rows, wanted.environments, round_))
        }
        if not samples:
            continue
        summary = statistics.summarize(samples)
        macro.append((round_, summary.macro))
        for name, figure in summary.environments.items():
            each[name].append((round_, figure))
    return macro, each


_NOT_SHOWN = {"rows", "spec", "left_out", "version"}


def to_data(table: ComparisonTable) -> dict[str, Any]:
    """The table and its rows for programs; docs are generated from this."""
    return {
        "title": table.title,
        "reference": table.reference,
        "environments": table.environments,
        "table": [_line_data(line) for line in table.lines],
        "missing": table.missing,
        "runs": [
            result.model_dump(mode="json", by_alias=True, exclude=_NOT_SHOWN)
            for result in table.results
        ],
        "rows": [row.to_json() for result in table.results for row in result.rows],
    }


def _line_data(line: TableLine) -> dict[str, Any]:
    greedy = line.summary.greedy  # None where nobody has played so
    return {
        "name": line.name,
        "method": line.method,
        "about": line.about,
        "macro": _figures(line.summary.macro),
        **({} if greedy is None else {"greedy": round(greedy, 4)}),
        "against": _figures(line.against) if line.against else None,
        "environments": {n: _figures(f) for n, f in line.summary.environments.items()},
        "micro": _figures(line.summary.micro),
        "seeds": line.summary.seeds,
        "shares": line.shares,
        "megabytes": round(line.megabytes, 3),
        "seconds": round(line.seconds, 1),
        "steps": round(line.steps, 1),
        "curve": [[round_, *_figures(figure)] for round_, figure in line.curve],
    }


def _figures(figure: Interval) -> list[float]:
    return [figure.low, figure.value, figure.high]
