"""One self-contained HTML page about a comparison, in the style of a run's report."""

from collections.abc import Sequence

from hansa.compare import table as tables
from hansa.compare import text, verdict
from hansa.compare.methods import METHODS
from hansa.compare.table import ComparisonTable, TableLine
from hansa.core.stats import Interval
from hansa.report.charts import SHAPES, Axes, Series, draw_lines, legend
from hansa.report.markup import (
    Child,
    Html,
    Section,
    contents,
    details,
    figure,
    format_change,
    limits,
    percent,
    pluralize,
    section,
    table,
    tag,
    tick,
)
from hansa.report.page import assemble_page, render_page_header

_HINT = (
    "Means over seeds, in brackets 95\u202f% intervals: a bootstrap that draws seeds and, for each "
    "of them, a rate that its episodes allow. Macro counts every environment alike, micro every "
    "episode. Local methods have an adapter per silo, scored at home; “all worlds” is the mean of "
    "each of them everywhere. Intervals of differences are on the wide side, for all methods play "
    "the same tasks."
)


MOST_BANDS = 4
"""Bands that can be distinguished in one chart; more methods get a small chart each."""


def render(shown: ComparisonTable) -> str:
    """The page; equal results give equal bytes."""
    data = tables.to_data(shown)
    offered = [_table(shown), _curves(shown), _costs(shown), _methods(shown)]
    sections = [one for one in offered if one is not None]
    body = tag(
        "main",
        render_page_header(
            "Hansa comparison", shown.title, [tag("span", fact) for fact in _facts(shown)]
        ),
        tag("p", " ".join(verdict.write_sentences(shown)), class_="verdict"),
        _missing(shown),
        contents(sections),
        *(one.html for one in sections),
    )
    figures = {name: value for name, value in data.items() if name not in ("rows", "runs")}
    return assemble_page(f"{shown.title} · Hansa comparison", body, figures)


def _facts(shown: ComparisonTable) -> list[str]:
    models = sorted({row.model for result in shown.results for row in result.rows})
    machines = sorted({result.machine for result in shown.results})
    seeds = {result.seed for result in shown.results}
    runs = pluralize(len(shown.results), "run")
    return [*models, runs, pluralize(len(seeds), "seed"), *machines]


def _missing(shown: ComparisonTable) -> Html | None:
    if not shown.missing:
        return None
    said = tag("strong", f"{verdict.count_missing(shown)}: ")
    named = text.name_missing(shown.missing, {result.method for result in shown.results})
    return tag("div", tag("p", said, named), class_="trouble", role="note")


def _table(shown: ComparisonTable) -> Section:
    if not shown.lines:
        return section("success", "Success", tag("p", "No run is over yet.", class_="empty"))
    against = [f"against {shown.reference}"] if shown.reference else []
    greedy = ["greedy"] if _has_greedy(shown) else []
    first: list[Child] = ["method", "macro", *greedy, *against]
    heads = [*first, *shown.environments, "micro", "seeds"]
    rows = [_row(shown, line) for line in shown.lines]
    return section(
        "success",
        "Success on held-out tasks after the last round",
        table(heads, rows, caption="Success by method and environment", class_="stacked"),
        tag("p", _HINT, class_="hint"),
    )


def _row(shown: ComparisonTable, line: TableLine) -> list[Child]:
    summary = line.summary
    cells: list[Child] = [line.name, _cell(summary.macro)]
    if _has_greedy(shown):
        cells.append("" if summary.greedy is None else percent(summary.greedy))
    if shown.reference:
        cells.append(tag("td", "–" if line.against is None else format_change(line.against)))
    cells += [_cell(summary.environments[name]) for name in shown.environments]
    return [*cells, _cell(summary.micro), summary.seeds]


def _has_greedy(shown: ComparisonTable) -> bool:
    return any(line.summary.greedy is not None for line in shown.lines)


def _cell(rate: Interval) -> Html:
    return tag("td", tag("b", percent(rate.value)), tag("small", limits(rate)))


def _choose_look(shown: ComparisonTable, line: TableLine) -> tuple[str, int]:
    """Colour and mark of a method; after eight of them the same colours get other marks."""
    index = [each.name for each in shown.lines if each.curve].index(line.name)
    return f"s{index % len(SHAPES)}", (index + index // len(SHAPES)) % len(SHAPES)


def _curves(shown: ComparisonTable) -> Section | None:
    drawn = [line for line in shown.lines if line.curve]
    if not drawn:
        return None
    last = max(line.curve[-1][0] for line in drawn)
    named = [(line.name, *_choose_look(shown, line)) for line in drawn]
    by_world = [figure(name, _chart(shown, drawn, last, name)) for name in shown.environments]
    by_method = [
        figure(line.name, _chart(shown, _add_reference(shown, line), last, "", alone=line.name))
        for line in drawn
        if len(drawn) > MOST_BANDS
    ]
    return section(
        "rounds",
        "Success by round",
        tag("p", "Bands are 95\u202f% intervals over seeds and episodes.", class_="lead"),
        figure(
            "Macro average of each method, by round",
            _chart(shown, drawn, last, ""),
            legend(named),
            class_="overview",
        ),
        tag("h3", "In each environment"),
        tag("div", *by_world, class_="panels"),
        tag("h3", f"Each method, beside {shown.reference or 'nothing'}") if by_method else None,
        tag("div", *by_method, class_="panels") if by_method else None,
        details("Figures of the curves", _figures(drawn, last)),
    )


def _add_reference(shown: ComparisonTable, line: TableLine) -> list[TableLine]:
    others = [each for each in shown.lines if each.name == shown.reference and each.curve]
    return [*(each for each in others if each is not line), line]


def _chart(
    shown: ComparisonTable, drawn: Sequence[TableLine], last: int, name: str, alone: str = ""
) -> Html:
    """One chart: an environment's success, or without its name the macro average.

    `alone` names the one method that the chart is about.
    """
    by_round = {line.name: line.curves[name] if name else line.curve for line in drawn}
    series = [
        Series(
            name=line.name,
            points=by_round[line.name],
            tone="faint" if alone and line.name != alone else tone,
            shape=None if alone and line.name != alone else shape,
            band=line.name == alone or (not alone and len(drawn) <= MOST_BANDS),
        )
        for line in drawn
        for tone, shape in [_choose_look(shown, line)]
    ]
    whole = not name and not alone
    height = 320 if whole else 140
    axes = Axes(first=0, last=max(1, last), top=1.0, height=height, show=tick)
    titles = [
        (round_, "\n".join([f"round {round_}", *_at(by_round, round_)]))
        for round_ in range(last + 1)
    ]
    return draw_lines(
        series,
        axes,
        label=f"Success by round, {alone or name or 'macro average'}.",
        ends=whole,
        baseline=_find_base(shown, name),
        titles=titles,
    )


def _find_base(shown: ComparisonTable, name: str) -> float | None:
    """The base model's success, where it was scored."""
    base = next((line for line in shown.lines if line.name == "pre-trained"), None)
    if base is None:
        return None
    return (base.summary.environments[name] if name else base.summary.macro).value


def _at(by_round: dict[str, list[tuple[int, Interval]]], round_: int) -> list[str]:
    rates = [(name, dict(curve).get(round_)) for name, curve in by_round.items()]
    return [f"{name} {percent(rate.value)}" for name, rate in rates if rate]


def _figures(drawn: Sequence[TableLine], last: int) -> Html:
    rows: list[list[Child]] = []
    for round_ in range(last + 1):
        figures = [dict(line.curve).get(round_) for line in drawn]
        if any(figures):
            rows.append([round_, *(f"{f.value * 100:.1f}" if f else "–" for f in figures)])
    heads = ["round", *(line.name for line in drawn)]
    return table(heads, rows, caption="Macro average by round, in per cent", class_="dense")


def _costs(shown: ComparisonTable) -> Section | None:
    rows: list[list[Child]] = [
        [
            line.name,
            line.shares,
            f"{line.megabytes:.2f}",
            text.format_span(line.seconds),
            round(line.steps),
        ]
        for line in shown.lines
        if line.shares
    ]
    heads = ["method", "silos send", "MB", "time", "steps"]
    shared = table(heads, rows, caption="Cost of a run by method")
    hint = (
        "MB are those of all silos and rounds together, both ways; of a centralized method the "
        "trajectories that silos give away, compressed. Times depend on the machine and on what "
        "ran beside; steps are the optimizer's in the rounds, without those that a silo which "
        "personalizes takes alone after the last one."
    )
    return section("costs", "What a run costs", shared, tag("p", hint, class_="hint"))


def _methods(shown: ComparisonTable) -> Section:
    here = [(line.name, line.about) for line in shown.lines]
    known = {line.method for line in shown.lines}
    left = [(name, method.about) for name, method in METHODS.items() if name not in known]
    others = details("Methods that are not in this comparison", _list(left)) if left else None
    return section("methods", "Methods", _list(here), others)


def _list(entries: Sequence[tuple[str, str]]) -> Html:
    return tag("ul", *(tag("li", tag("strong", name), f": {about}") for name, about in entries))
