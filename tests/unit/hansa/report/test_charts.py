"""Charts: places, ticks, and edges such as one round or none."""

import itertools
import re

import pytest

from hansa.core.stats import Interval
from hansa.report.charts import (
    Axes,
    Column,
    Flag,
    Series,
    choose_axis_top,
    choose_round_ticks,
    draw_columns,
    draw_lines,
    spread,
)


@pytest.mark.parametrize(
    ("first", "last", "ticks"),
    [
        pytest.param(0, 8, [0, 1, 2, 3, 4, 5, 6, 7, 8], id="few rounds are all written"),
        pytest.param(1, 50, [1, 10, 20, 30, 40, 50], id="many rounds go by tens"),
        pytest.param(0, 0, [0], id="a single round"),
        pytest.param(0, 10_000, [0, 2000, 4000, 6000, 8000, 10_000], id="thousands"),
        pytest.param(0, 21, [0, 5, 10, 15, 21], id="no tick stands too near to the last"),
    ],
)
def test_round_ticks(first: int, last: int, ticks: list[int]) -> None:
    assert choose_round_ticks(first, last) == ticks


@pytest.mark.parametrize(
    ("value", "top"),
    [(0, 1), (-1, 1), (0.93, 1), (1.01, 1.2), (240, 240), (2500, 3200), (5e-324, 1)],
)
def test_an_axis_ends_at_a_round_figure(value: float, top: float) -> None:
    assert choose_axis_top(value) == pytest.approx(top)


@pytest.mark.parametrize(
    ("places", "spread_out"),
    [
        pytest.param([10, 50, 90], [10, 50, 90], id="names with room stay at their lines"),
        pytest.param([50, 50, 52, 90], [40.67, 50.67, 60.67, 90], id="a crowd keeps its middle"),
        pytest.param([40, 50, 51], [37, 47, 57], id="a crowd takes in who is too near"),
        pytest.param([0, 1, 99, 100], [0, 10, 90, 100], id="nobody leaves the chart"),
        pytest.param([50] * 13, [10 * n for n in range(13)], id="too many go on below it"),
        pytest.param([], [], id="no names"),
    ],
)
def test_names_that_would_lie_on_each_other(places: list[float], spread_out: list[float]) -> None:
    assert spread(places, 10, 100) == pytest.approx(spread_out, abs=0.01)


def _line(*values: float) -> Series:
    points = [(number, Interval(v - 0.1, v, v + 0.1)) for number, v in enumerate(values)]
    return Series(name="maze", points=points, tone="s0", shape=0, band=True, labelled=True)


def test_a_line_goes_from_edge_to_edge_and_its_marks_tell_their_figures() -> None:
    axes = Axes(first=0, last=2, top=1.0, height=100)
    drawn = draw_lines([_line(0.2, 0.4, 0.8)], axes, label="x")
    assert 'd="M0 80L500 60L1000 20"' in drawn
    marks = re.findall(r'x="([\d.]+)%" y="([\d.]+)" data-round="(\d)" data-value="([\d.]+)"', drawn)
    assert marks == [("0", "80", "0", "0.2"), ("50", "60", "1", "0.4"), ("100", "20", "2", "0.8")]


def test_a_lone_point_shows_its_limits() -> None:
    drawn = draw_lines([_line(0.5)], Axes(first=0, last=0, top=1.0, height=100), label="x")
    assert '<line x1="50%" x2="50%" y1="60.0" y2="40.0">' in drawn


def test_many_points_are_thinned_but_the_first_and_last_stay() -> None:
    axes = Axes(first=0, last=199, top=1.0, height=320)
    drawn = draw_lines([_line(*[0.5] * 200)], axes, label="x")
    rounds = [int(found) for found in re.findall(r'data-round="(\d+)"', drawn)]
    assert rounds[0] == 0
    assert rounds[-1] == 199
    assert len(rounds) <= 27


def test_bars_stand_on_each_other() -> None:
    bars = [Column(round=3, layers=[1.0, 3.0], title="<x>")]
    drawn = draw_columns(bars, ["p0", "p1"], label="x", height=100, show=str)
    assert 'd="M500 100V75"' in drawn
    assert 'd="M500 75V0"' in drawn
    assert "<title>&lt;x&gt;</title>" in drawn


def test_a_chart_without_bars_is_an_empty_frame() -> None:
    assert draw_columns([], ["p0"], label="x", height=100, show=str).count("<rect") == 0


# Labels and curves, measured: letters are taken as wider than those of any usual font

Box = tuple[float, float, float, float]
"""Left, top, right and bottom in pixels."""
_LETTER = 0.64
_FONTS = {"grid": 12.0, "ends": 12.0, "flag": 13.0, "failure": 9.0}
"""Sizes that page.css gives the texts."""


def boxes(drawn: str, width: float) -> list[tuple[str, Box]]:
    """Where the texts of a chart lie in a plot of some width; names at ends only if it is wide."""
    placed = []
    for group in re.findall(
        r'<g class="([^"]*)"|<text ([^>]*)>(?:<title>[^<]*</title>)?([^<]*)<', drawn
    ):
        if group[0]:
            kind = group[0].split()[0]
            continue
        given = dict(re.findall(r'([\w-]+)="([^"]*)"', group[1]))
        if kind == "ends" and width < 560:
            continue
        font = _FONTS["failure" if 'class="failure"' in group[1] else kind]
        x, unit = re.fullmatch(r"([-\d.]+)(%?)", given["x"]).groups()  # type: ignore[union-attr]
        middle = float(x) * width / 100 if unit else float(x)
        middle += float(given.get("dx", 0))
        length = _LETTER * font * len(group[2])
        anchor = given.get("text-anchor", "middle" if "failure" in group[1] else "start")
        left = middle - {"start": 0, "middle": length / 2, "end": length}[anchor]
        y = float(given["y"])
        placed.append((group[2], (left, y - 0.78 * font, left + length, y + 0.22 * font)))
    return placed


def segments(drawn: str, width: float) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    """The pieces of all curves in pixels."""
    pieces = []
    for path in re.findall(r'<path d="M([^"Z]*)" class="line', drawn):
        corners = [tuple(map(float, corner.split())) for corner in path.split("L")]
        placed = [(x * width / 1000, y) for x, y in corners]
        pieces += list(itertools.pairwise(placed))
    return pieces


def crosses(box: Box, start: tuple[float, float], end: tuple[float, float]) -> bool:
    """Whether a line enters a box, by clipping it at the box's four sides."""
    enters, leaves = 0.0, 1.0
    for axis in (0, 1):
        low, high = box[axis] - start[axis], box[axis + 2] - start[axis]
        step = end[axis] - start[axis]
        if not step:
            if not low <= 0 <= high:
                return False
            continue
        first, last = sorted((low / step, high / step))
        enters, leaves = max(enters, first), min(leaves, last)
    return enters <= leaves


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        pytest.param((0, 0), (10, 10), True, id="through it"),
        pytest.param((4, 5), (6, 5), True, id="inside it"),
        pytest.param((0, 5), (10, 5), True, id="level, through it"),
        pytest.param((0, 0), (10, 0), False, id="above it"),
        pytest.param((0, 3), (3, 0), False, id="past its corner"),
    ],
)
def test_the_measure_of_crossing(
    start: tuple[float, float], end: tuple[float, float], expected: bool
) -> None:
    assert crosses((4, 4, 6, 6), start, end) is expected


def overlap(one: Box, other: Box) -> bool:
    apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
    return not apart


CURVES = {
    "crossing": [[0.2, 0.9, 0.3, 0.8], [0.9, 0.2, 0.8, 0.3], [0.5, 0.5, 0.5, 0.5]],
    "nearly equal": [[0.5 + 0.002 * n + 0.1 * r for r in range(4)] for n in range(8)],
    "at the top": [[1.0, 1.0, 0.99, 1.0], [0.98, 1.0, 1.0, 1.0]],
    "at the bottom": [[0.0, 0.0, 0.01, 0.0], [0.02, 0.0, 0.0, 0.0]],
    "from top to bottom": [[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0]],
    "a long way": [[0.3 + 0.4 * ((r * 7 + n * 3) % 11) / 11 for r in range(50)] for n in range(5)],
}


@pytest.mark.parametrize("width", [200, 420, 900])
@pytest.mark.parametrize("best", [1, 2, -1])
@pytest.mark.parametrize("name", CURVES)
def test_no_label_lies_on_a_curve_or_on_another_label(name: str, best: int, width: int) -> None:
    curves = CURVES[name]
    last = len(curves[0]) - 1
    rounds = range(last + 1)
    series = [
        Series(
            name=f"environment {index}",
            points=[(r, Interval(v, v, v)) for r, v in zip(rounds, values, strict=True)],
            tone=f"s{index}",
            shape=index,
        )
        for index, values in enumerate(curves)
    ]
    best = best % (last + 1)
    flags = [
        Flag(round=0, value=curves[0][0], text="start 33.8 %", kind="start"),
        Flag(round=best, value=curves[0][best], text="best 100.0 %", kind="best"),
    ]
    axes = Axes(first=0, last=last, top=1.0, height=320)
    drawn = draw_lines(series, axes, label="x", flags=flags, ends=True, failed=[2])
    placed = boxes(drawn, width)
    texts = {text for text, _ in placed}
    assert {"start 33.8 %", "best 100.0 %", "✕", "100.0\u202f%"} <= texts
    assert ("environment 0" in texts) is (width == 900)
    for index, (text, box) in enumerate(placed):
        for start, end in segments(drawn, width):
            assert not crosses(box, start, end), f"{text} lies on a curve"
        for other, its in placed[index + 1 :]:
            assert not overlap(box, its), f"{text} lies on {other}"


def test_names_that_find_no_room_beside_the_chart_are_left_to_the_legend() -> None:
    many = [_line(0.5, 0.5) for _ in range(30)]
    axes = Axes(first=0, last=1, top=1.0, height=320)
    assert "maze</text>" not in draw_lines(many, axes, label="x", ends=True)
    assert draw_lines(many[:5], axes, label="x", ends=True).count("maze</text>") == 5
