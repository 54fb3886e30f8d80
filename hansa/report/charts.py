"""Charts as SVG that fills its container and keeps its font size, without any script.

Lines and bars are drawn in an inner SVG that is stretched to the width, with strokes that do not
scale; marks and text are placed in the outer one by percentage. So one drawing fits a phone and a
desktop. No text is where curves may go: the container leaves room for it on all four sides (see
page.css), and a point that is named has a thin line to its name above the chart.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hansa.core.stats import Interval
from hansa.report.markup import Html, escape, join, percent, tag

SPAN = 1000
"""Width of the stretched drawing in its own units."""
SHAPES = (
    "M0-4A4 4 0 1 0 0 4A4 4 0 1 0 0-4Z",
    "M-3.6-3.6H3.6V3.6H-3.6Z",
    "M0-5L5 0L0 5L-5 0Z",
    "M0-4.8L4.8 3.8H-4.8Z",
    "M0 4.8L4.8-3.8H-4.8Z",
    "M-1.6-4.6H1.6V-1.6H4.6V1.6H1.6V4.6H-1.6V1.6H-4.6V-1.6H-1.6Z",
    "M-4.6-1.8L0-5L4.6-1.8L2.9 4H-2.9Z",
    "M-5 0L-2.5-4.3H2.5L5 0L2.5 4.3H-2.5Z",
)
"""One shape per series, so that they are distinct without colour."""
_LABEL_GAP = 15
_LABEL = 16
"""Longest name beside a line, in characters; page.css leaves room for it."""
_TICKS = 9
_TICK_Y = 20
"""Baseline of the labels below the axis; above them is room for the mark of a failed round."""
_FLAG_ROWS = {"start": -12, "best": -28}
"""Baselines of the names above a chart: a row for each, so that they never overlap."""
_TOPS = (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10)
"""Tops of an axis, chosen so that quarters of them are short numbers."""
_TALL = 300
"""Height from which a chart is as wide as the page and has room for more marks."""


@dataclass(frozen=True, kw_only=True)
class Series:
    """One line of a chart."""

    name: str
    points: Sequence[tuple[int, Interval]]
    """(round, figure), by round."""
    tone: str
    """CSS class that sets its colour: s0 to s7, mean or faint."""
    shape: int | None = None
    """Index of its mark; None draws the line alone."""
    band: bool = False
    """Whether its limits are drawn as a band."""
    labelled: bool = False
    """Whether its marks carry their figures, for programs that read the page."""


@dataclass(frozen=True, kw_only=True)
class Flag:
    """A point that is named on the chart."""

    round: int
    value: float
    text: str
    kind: str
    """`start` or `best`."""


@dataclass(frozen=True, kw_only=True)
class Axes:
    """Where rounds and figures lie."""

    first: int
    last: int
    top: float
    height: int
    show: Callable[[float], str] = percent
    """Writes a figure of the vertical axis."""
    slots: bool = False
    """Whether rounds have equal slots, as bars need, instead of points from edge to edge."""

    @property
    def width(self) -> float:
        """Share of the chart's width that belongs to one round."""
        return 1 / max(1, self.last - self.first + self.slots)

    def share(self, round_: float) -> float:
        """Place of a round, from 0 (left) to 1; a single round is in the middle."""
        if self.last == self.first:
            return 0.5
        return (round_ - self.first + self.slots / 2) * self.width

    def x(self, round_: float) -> str:
        """Place of a round in the outer drawing."""
        return f"{self.share(round_) * 100:.4g}%"

    def y(self, value: float) -> float:
        """Height of a figure in either drawing."""
        return round(self.height * (1 - value / self.top), 1) if self.top else float(self.height)


def choose_axis_top(value: float) -> float:
    """The next round figure at or above a value, so that ticks are short."""
    power = 10.0 ** math.floor(math.log10(value)) if 0 < value < math.inf else 0.0
    if not power:  # zero, or so small that a power of ten of it is no float
        return 1.0
    return next(step * power for step in _TOPS if value <= step * power * (1 + 1e-9))


def choose_round_ticks(first: int, last: int) -> list[int]:
    """Few rounds to write below the axis: the first, the last and even steps between."""
    steps = (scale * 10**power for power in range(6) for scale in (1, 2, 5))
    step = next((one for one in steps if (last - first) / one <= _TICKS), 10**6)
    inner = range(first - first % step, last, step)
    kept = [tick for tick in inner if tick - first > step / 2 and last - tick > step / 2]
    return sorted({first, *kept, last})


def draw_lines(
    series: Sequence[Series],
    axes: Axes,
    *,
    label: str,
    flags: Sequence[Flag] = (),
    ends: bool = False,
    baseline: float | None = None,
    failed: Sequence[int] = (),
    titles: Sequence[tuple[int, str]] = (),
) -> Html:
    """A line chart over rounds; `ends` writes the names beside the lines on wide screens.

    `titles` are shown where the pointer is near a round: a mark alone is too small to be hit.
    """
    stretched = [_band(one, axes) for one in series if one.band]
    stretched += [_baseline(baseline, axes)] if baseline is not None else []
    stretched += [_path(one, axes) for one in series]
    return _drawing(
        axes,
        label,
        stretched,
        [
            *(_marks(one, axes) for one in series),
            *(_draw_failure(round_, axes) for round_ in failed),
            *(_flag(flag, axes) for flag in flags),
            _draw_end_names(series, axes) if ends else None,
            _draw_hover_titles(titles, axes),
        ],
        look=" wide" * ends + " flagged" * bool(flags),
    )


def _drawing(
    axes: Axes,
    label: str,
    stretched: Sequence[Html],
    placed: Sequence[Html | None],
    look: str = "",
) -> Html:
    inner = tag(
        "svg",
        *stretched,
        viewBox=f"0 0 {SPAN} {axes.height}",
        preserveAspectRatio="none",
        width="100%",
        height=axes.height,
    )
    drawing = tag(
        "svg",
        _grid(axes),
        inner,
        _round_labels(axes),
        *placed,
        role="img",
        aria_label=label,
        width="100%",
        height=axes.height,
        class_="chart",
    )
    return tag("div", drawing, class_=f"plot{look}")


def _grid(axes: Axes) -> Html:
    parts = 4 if axes.height >= 150 else 2
    rows = []
    for step in range(parts + 1):
        value = axes.top * step / parts
        y = axes.y(value)
        rows.append(tag("line", x2="100%", y1=y, y2=y, class_="zero" if not step else None))
        rows.append(tag("text", axes.show(value), x=-12, y=y + 4, text_anchor="end"))
    return tag("g", *rows, class_="grid", aria_hidden="true")


def _round_labels(axes: Axes) -> Html:
    y = axes.height + _TICK_Y
    ticks = choose_round_ticks(axes.first, axes.last)
    written = (tag("text", tick, x=axes.x(tick), y=y, text_anchor="middle") for tick in ticks)
    name = tag("text", "round", x="50%", y=y + 15, text_anchor="middle", class_="axis")
    return tag("g", *written, name, class_="grid", aria_hidden="true")


def _format_point(round_: float, value: float, axes: Axes) -> str:
    return f"{axes.share(round_) * SPAN:.4g} {axes.y(value):g}"


def _path(series: Series, axes: Axes) -> Html:
    corners = [_format_point(round_, figure.value, axes) for round_, figure in series.points]
    if not corners:
        return Html()
    return tag("path", d="M" + "L".join(corners), class_=f"line {series.tone}")


def _band(series: Series, axes: Axes) -> Html:
    upper = [_format_point(round_, figure.high, axes) for round_, figure in series.points]
    lower = [_format_point(round_, figure.low, axes) for round_, figure in reversed(series.points)]
    if len(upper) < 2:
        return Html()
    return tag("path", d="M" + "L".join([*upper, *lower]) + "Z", class_=f"band {series.tone}")


def _baseline(value: float, axes: Axes) -> Html:
    y = axes.y(value)
    return tag("path", d=f"M0 {y}H{SPAN}", class_="baseline")


def _marks(series: Series, axes: Axes) -> Html:
    if series.shape is None or not series.points:
        return Html()
    room = 26 if axes.height >= _TALL else 13
    stride = -(-len(series.points) // room)
    shown = [*series.points[:-1:stride], *series.points[-1:]]
    marks = [_mark(round_, figure, series, axes) for round_, figure in shown]
    whisker = _whisker(*series.points[0], axes) if series.band and len(marks) == 1 else None
    return tag("g", whisker, *marks, class_=f"marks {series.tone}", data_series=series.name)


def _mark(round_: int, figure: Interval, series: Series, axes: Axes) -> Html:
    # Written by hand: there are hundreds of these, and a page must stay small.
    data = f' data-round="{round_}" data-value="{figure.value:.6g}"' if series.labelled else ""
    place = f'x="{axes.x(round_)}" y="{axes.y(figure.value):g}"'
    return Html(f'<use href="#mark{series.shape}" {place}{data}/>')


def _whisker(round_: int, figure: Interval, axes: Axes) -> Html:
    """Limits of a lone point, where there is no band to see."""
    x = axes.x(round_)
    return tag("line", x1=x, x2=x, y1=axes.y(figure.low), y2=axes.y(figure.high))


def _draw_hover_titles(titles: Sequence[tuple[int, str]], axes: Axes) -> Html:
    """Invisible columns that show their figures on hover; their width is set once, by style."""
    width = axes.width * 100
    hits = (
        Html(f'<rect x="{left:.4g}%"><title>{escape(text)}</title></rect>')
        for left, text in ((axes.share(each) * 100 - width / 2, text) for each, text in titles)
    )
    return tag("g", *hits, class_="hits", style=f"--width:{width:.4g}%")


def _draw_failure(round_: int, axes: Axes) -> Html:
    title = tag("title", f"Round {round_} failed: no adapter came of it")
    return tag("text", title, "✕", x=axes.x(round_), y=axes.height + 8, class_="failure")


def _flag(flag: Flag, axes: Axes) -> Html:
    share, y = axes.share(flag.round), axes.y(flag.value)
    anchor = "start" if share < 0.25 else "end" if share > 0.75 else "middle"
    x, row = axes.x(flag.round), _FLAG_ROWS[flag.kind]
    text = tag("text", flag.text, x=x, y=row, text_anchor=anchor)
    leader = tag("line", x1=x, x2=x, y1=row + 4, y2=y - 8)
    ring = tag("circle", cx=x, cy=y, r=8)
    return tag("g", leader, ring, text, class_=f"flag {flag.kind}", data_round=flag.round)


def _draw_end_names(series: Sequence[Series], axes: Axes) -> Html:
    """Names beside the last points, pushed apart where they would lie on each other.

    Where there is no room for all, there are none: the legend has them.
    """
    ended = [one for one in series if one.points and one.tone != "faint"]
    if (len(ended) - 1) * _LABEL_GAP > axes.height:
        return Html()
    ended.sort(key=lambda one: axes.y(one.points[-1][1].value))
    places = spread([axes.y(one.points[-1][1].value) for one in ended], _LABEL_GAP, axes.height)
    names = []
    for one, y in zip(ended, places, strict=True):
        short = one.name if len(one.name) <= _LABEL else one.name[: _LABEL - 1] + "…"
        names.append(tag("text", short, x="100%", dx=12, y=round(y + 4, 1), class_=one.tone))
    return tag("g", *names, class_="ends", aria_hidden="true")


def spread(places: Sequence[float], gap: float, height: float) -> list[float]:
    """Sorted places at least a gap apart, from 0 to a height where they fit.

    A crowd is centred on the mean of its places: if it were only pushed down, its last names would
    be beside lines that they do not belong to.
    """

    def first(crowd: Sequence[float]) -> float:
        length = (len(crowd) - 1) * gap
        return max(0.0, min(sum(crowd) / len(crowd) - length / 2, height - length))

    crowds: list[list[float]] = []
    for place in places:
        crowd = [place]
        while crowds and first(crowds[-1]) + len(crowds[-1]) * gap > first(crowd):
            crowd = crowds.pop() + crowd
        crowds.append(crowd)
    return [first(crowd) + index * gap for crowd in crowds for index in range(len(crowd))]


@dataclass(frozen=True, kw_only=True)
class Column:
    """One round's stacked bar."""

    round: int
    layers: Sequence[float]
    title: str


def draw_columns(
    bars: Sequence[Column],
    tones: Sequence[str],
    *,
    label: str,
    height: int,
    show: Callable[[float], str],
    top: float | None = None,
) -> Html:
    """Stacked bars over rounds; each layer is one path, so that many rounds cost little."""
    highest = max((sum(bar.layers) for bar in bars), default=0.0)
    first, last = (bars[0].round, bars[-1].round) if bars else (0, 0)
    top = top or choose_axis_top(highest)
    axes = Axes(first=first, last=last, top=top, height=height, show=show, slots=True)
    layers = [layer(bars, index, tone, axes) for index, tone in enumerate(tones)]
    return _drawing(
        axes, label, layers, [_draw_hover_titles([(bar.round, bar.title) for bar in bars], axes)]
    )


def layer(bars: Sequence[Column], index: int, tone: str, axes: Axes) -> Html:
    """One layer of all bars as strokes of one path, which costs a third of as many rectangles."""
    thickness = min(axes.width * SPAN * 0.78, 90.0)
    strokes = []
    for bar in bars:
        if bar.layers[index] <= 0:
            continue
        below = sum(bar.layers[:index])
        bottom, top = axes.y(below), axes.y(below + bar.layers[index])
        strokes.append(f"M{axes.share(bar.round) * SPAN:.4g} {bottom:g}V{top:g}")
    shown = {"d": "".join(strokes), "stroke_width": f"{thickness:.4g}"}
    return tag("path", **shown, class_=f"layer {tone}") if strokes else Html()


def define_markers() -> Html:
    """The marks that every chart uses; once per page."""
    shapes = (tag("path", id=f"mark{index}", d=path) for index, path in enumerate(SHAPES))
    return tag("svg", tag("defs", *shapes), width=0, height=0, class_="defs", aria_hidden="true")


def legend(entries: Sequence[tuple[str, str, int | None]]) -> Html:
    """What line or bar is what, as (name, tone, shape): shapes tell them apart without colours."""
    return tag("ul", *(_entry(*entry) for entry in entries), class_="legend")


def _entry(name: str, tone: str, shape: int | None) -> Html:
    if tone.startswith("p"):
        swatch = tag("span", class_=f"swatch {tone}")
    else:
        mark = Html(f'<use href="#mark{shape}" x="14" y="7"/>') if shape is not None else None
        line = tag("path", d="M1 7H27", class_=f"line {tone}")
        inner = join([line, tag("g", mark, class_=f"marks {tone}")])
        swatch = tag("svg", inner, width=28, height=14, aria_hidden="true")
    return tag("li", swatch, tag("span", name))
