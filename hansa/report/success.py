"""The page's first question: did the agent get better, where, and how sure is that?"""

from collections.abc import Callable, Sequence

from hansa.core.stats import Interval, difference
from hansa.report.charts import SHAPES, Axes, Flag, Series, choose_axis_top, draw_lines, legend
from hansa.report.markup import (
    Child,
    Html,
    Section,
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
from hansa.report.run_facts import ReportData, Round

MOST_LINES = len(SHAPES)
"""Environments with a colour and a shape of their own; more of them become thin lines."""
UNMERGED = ("failed", "rolled-back")
"""Rounds that made no adapter of their updates."""
MOST_PANELS = 12
"""Small charts on a page; the table has every environment."""
_TITLE = "Success on held-out tasks"


def choose_tone(data: ReportData, environment: str) -> tuple[str, int | None]:
    """Colour class and shape of an environment, the same in every chart of the page."""
    if len(data.environments) > MOST_LINES:
        return "faint", None
    index = data.environments.index(environment)
    return f"s{index}", index


def show(data: ReportData) -> Section:
    """Curve, small charts and table of success on held-out tasks."""
    if not data.evaluated:
        empty = "No adapter has been evaluated yet: the curve begins with the base model's score."
        return section("success", _TITLE, tag("p", empty, class_="empty"))
    return section(
        "success",
        _TITLE,
        tag("p", _introduction(data), class_="lead"),
        draw_overview(data),
        _panels(data),
        _table(data),
        details("Figures of the curve", _figures(data)),
    )


def _introduction(data: ReportData) -> str:
    text = (
        "Each point is one global adapter on tasks that nobody trains on"
        f"{_describe_sampling(data)}. "
        "The mean counts every environment alike; shaded areas are 95\u202f% intervals."
    )
    if data.federation.spec.privacy:
        text += " Successes have the noise of spec.privacy, and the intervals contain it."
    return text


def _describe_sampling(data: ReportData) -> str:
    """How the agent sampled, by the evaluations themselves: the spec may have changed since."""
    known = sorted({e.temperature for e in data.evaluated if e.temperature is not None})
    if not known:
        return ""
    if len(known) > 1:
        return f", sampled at temperatures from {known[0]:g} to {known[-1]:g}"
    return ", played greedily" if known[0] == 0 else f", sampled at temperature {known[0]:g}"


def _series(data: ReportData, environment: str) -> list[tuple[int, Interval]]:
    return [
        (entry.number, entry.scores[environment].interval)
        for entry in data.evaluated
        if environment in entry.scores
    ]


def _axes(data: ReportData, height: int) -> Axes:
    last = max(data.rounds[-1].number, 1)
    return Axes(first=data.evaluated[0].number, last=last, top=1.0, height=height, show=tick)


def draw_overview(data: ReportData) -> Html:
    """All environments as lines and their mean, with the start and the best named."""
    series = [
        Series(name=name, points=_series(data, name), tone=look[0], shape=look[1])
        for name in data.environments
        if (look := choose_tone(data, name))
    ]
    points = [(entry.number, mean) for entry in data.evaluated if (mean := entry.success)]
    series.append(
        Series(name="mean", points=points, tone="mean", shape=0, band=True, labelled=True)
    )
    drawing = draw_lines(
        series,
        _axes(data, 320),
        label=_write_label(data),
        flags=_list_flags(data),
        ends=len(data.environments) <= MOST_LINES,
        failed=[entry.number for entry in data.rounds if entry.outcome in UNMERGED],
        titles=[(entry.number, _title(data, entry)) for entry in data.evaluated],
    )
    caption = "Success of each round's global adapter, in each environment and on average"
    return figure(caption, drawing, draw_environment_legend(data, "mean"), class_="overview")


def _title(data: ReportData, entry: Round) -> str:
    mean = entry.success
    lines = [f"round {entry.number}", f"mean {_limits(mean)}" if mean else ""]
    if len(data.environments) > MOST_LINES:
        ratios = [score.ratio for score in entry.scores.values()]
        lines.append(f"from {percent(min(ratios))} to {percent(max(ratios))}")
    else:
        lines += [f"{name} {percent(score.ratio)}" for name, score in sorted(entry.scores.items())]
    return "\n".join(lines)


def _limits(rate: Interval) -> str:
    return f"{percent(rate.value)} {limits(rate)}"


def draw_environment_legend(data: ReportData, bold: str = "") -> Html:
    """Names of the lines that show environments, and of the bold one where there is one."""
    entries: list[tuple[str, str, int | None]] = [(bold, "mean", 0)] if bold else []
    if len(data.environments) > MOST_LINES:
        each = f"each of {pluralize(len(data.environments), 'environment')}"
        return legend([*entries, (each, "faint", None)])
    return legend([*entries, *((name, *choose_tone(data, name)) for name in data.environments)])


def _list_flags(data: ReportData) -> list[Flag]:
    best = data.best if data.best and data.best.number else None
    flags = []
    for entry, kind in ((data.base, "start"), (best, "best")):
        if entry and entry.success:
            value = entry.success.value
            text = f"{kind} {percent(value)}"
            flags.append(Flag(round=entry.number, value=value, text=text, kind=kind))
    return flags


def _write_label(data: ReportData) -> str:
    ends = [
        f"{word} {percent(entry.success.value)} (round {entry.number})"
        for word, entry in (("start", data.base), ("last", data.last), ("best", data.best))
        if entry and entry.success
    ]
    count = pluralize(len(data.environments), "environment")
    return f"Success per round, mean of {count}: {', '.join(ends)}."


def choose_panels(data: ReportData) -> tuple[list[str], str]:
    """Environments that get a small chart, and the sentence that says which ones."""
    names = [name for name in data.environments if _series(data, name)]
    if len(names) <= MOST_PANELS:
        return names, ""
    by_change = sorted(names, key=lambda name: _change(data, name))
    half = MOST_PANELS // 2
    extremes = {*by_change[:half], *by_change[-half:]}
    sentence = f"The {half} that gained least and the {half} that gained most, of {len(names)}."
    return [name for name in names if name in extremes], sentence


def _change(data: ReportData, name: str) -> float:
    points = _series(data, name)
    return points[-1][1].value - points[0][1].value


def _panels(data: ReportData) -> Html:
    names, sentence = choose_panels(data)
    shown = [_panel(data, name) for name in names]
    note = tag("p", sentence, class_="hint") if sentence else None
    return tag("div", note, tag("div", *shown, class_="panels"))


def _panel(data: ReportData, name: str) -> Html:
    points = _series(data, name)
    shape = data.environments.index(name) % MOST_LINES
    one = Series(name=name, points=points, tone=f"s{shape}", shape=shape, band=True)
    first, last = points[0][1].value, points[-1][1].value
    ends = f"{percent(first)} → {percent(last)}" if len(points) > 1 else percent(first)
    label = f"Success of {name} per round: {ends}."
    titles = [(number, f"round {number}: {_limits(rate)}") for number, rate in points]
    drawing = draw_lines([one], _axes(data, 120), label=label, baseline=first, titles=titles)
    return figure(name, drawing, aside=ends)


def _table(data: ReportData) -> Html:
    best = data.best
    heads = [
        "environment",
        "base",
        f"last (round {data.last.number})" if data.last else "last",
        f"best mean (round {best.number})" if best else "best mean",
        "change, base to last",
        "episodes",
    ]
    rows = [_environment_row(data, name) for name in data.environments]
    mean = _row(data, "mean", tag("strong", "mean"), _find_means(data))
    shown = table(
        heads,
        [[*mean, ""], *rows],
        caption="Success by environment: base, last and best adapter",
        class_="figures",
    )
    shown = tag("div", shown, class_="tall") if len(rows) > MOST_PANELS else shown
    hint = (
        "In brackets: 95\u202f% intervals (Wilson; Newcombe for the change, in percentage points; "
        "clustered by task where tasks are played more than once). "
        "All adapters play the same tasks, so the interval of a change is on the wide side."
    )
    return tag("div", shown, tag("p", hint, class_="hint"))


def _find_means(data: ReportData) -> list[Interval | None]:
    """Base and last over the environments that evaluated both, and the best over all."""
    both, best = data.comparison, data.best.success if data.best else None
    if both:
        return [both.first, both.last, best]
    return [data.base.success if data.base else None, None, best]


def _find_rates(data: ReportData, name: str) -> list[Interval | None]:
    """Base, last and best of an environment."""
    scores = [entry.scores.get(name) if entry else None for entry in _list_ends(data)]
    return [score.interval if score else None for score in scores]


def _list_ends(data: ReportData) -> tuple[Round | None, Round | None, Round | None]:
    return data.base, data.last, data.best


def _row(data: ReportData, name: str, head: Html, rates: Sequence[Interval | None]) -> list[Child]:
    """Base, last and best of one line, and the change between the first two."""
    words = ("base", "last", "best")
    cells = [
        _cell(name, word, entry, rate)
        for word, entry, rate in zip(words, _list_ends(data), rates, strict=True)
    ]
    return [head, *cells, _change_cell(name, *rates[:2])]


def _environment_row(data: ReportData, name: str) -> list[Child]:
    world = data.world(name)
    aside = tag("small", world or "removed") if world != name else None
    ends = [
        entry.scores[name] for entry in (data.last, data.base) if entry and name in entry.scores
    ]
    row = _row(
        data,
        name,
        tag("span", name, aside, class_="named"),
        _find_rates(data, name),
    )
    return [*row, (ends[0].episodes if ends else 0) or "–"]


def _cell(name: str, word: str, entry: Round | None, rate: Interval | None) -> Html:
    if rate is None or entry is None:
        return tag("td", "–")
    return tag(
        "td",
        tag("b", percent(rate.value)),
        tag("small", limits(rate)),
        data_environment=name,
        data_figure=word,
        data_round=entry.number,
        data_value=f"{rate.value:.6g}",
    )


def _change_cell(name: str, base: Interval | None, last: Interval | None) -> Html:
    if base is None or last is None:
        return tag("td", "–")
    gain = difference(last, base)
    return tag(
        "td",
        format_change(gain),
        data_environment=name,
        data_figure="change",
        data_value=f"{gain.value:.6g}",
    )


def _figures(data: ReportData) -> Html:
    heads = ["round", "mean", *data.environments]
    rows = [_figure_row(data, entry) for entry in data.evaluated]
    return table(
        heads, rows, caption="Success per round and environment, in per cent", class_="dense"
    )


def _figure_row(data: ReportData, entry: Round) -> list[Child]:
    mean = entry.success
    scores = (entry.scores.get(name) for name in data.environments)
    cells = [f"{score.ratio * 100:.1f}" if score else "–" for score in scores]
    return [entry.number, f"{mean.value * 100:.1f}" if mean else "–", *cells]


# Figures of the environments' work as lines


def draw_part_lines(
    data: ReportData,
    field: str,
    *,
    label: str,
    show: Callable[[float], str],
    extra: Sequence[Series] = (),
) -> Html:
    """One line per environment of a figure in its manifests, from zero to a round top."""
    series = [*(_collect_part_series(data, name, field) for name in data.environments), *extra]
    values = [figure.value for one in series for _, figure in one.points]
    if not values:
        return tag("p", "No manifest says it.", class_="empty")
    first, last = data.played[0].number, data.played[-1].number
    axes = Axes(first=first, last=last, top=choose_axis_top(max(values)), height=170, show=show)
    titles = [
        (entry.number, _write_part_title(series, entry.number, show)) for entry in data.played
    ]
    return draw_lines(series, axes, label=label, titles=titles)


def _write_part_title(series: Sequence[Series], round_: int, show: Callable[[float], str]) -> str:
    figures = [
        f"{one.name} {show(figure.value)}"
        for one in series
        if (figure := dict(one.points).get(round_))
    ]
    shown = figures if len(figures) <= MOST_LINES + 1 else [f"{len(figures)} figures"]
    return "\n".join([f"round {round_}", *shown])


def _collect_part_series(data: ReportData, name: str, field: str) -> Series:
    look, shape = choose_tone(data, name)
    points = [
        (entry.number, Interval(value, value, value))
        for entry in data.played
        if name in entry.parts and (value := getattr(entry.parts[name], field)) is not None
    ]
    return Series(name=name, points=points, tone=look, shape=shape)
