"""Charts: places, ticks, and edges such as one round or none."""

import re

import pytest

from hansa.intervals import Interval
from hansa.report.charts import Axes, Column, Series, columns, lines, nice_top, round_ticks, spread


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
    assert round_ticks(first, last) == ticks


@pytest.mark.parametrize(
    ("value", "top"),
    [(0, 1), (-1, 1), (0.93, 1), (1.01, 1.2), (240, 240), (2500, 3200), (5e-324, 1)],
)
def test_an_axis_ends_at_a_round_figure(value: float, top: float) -> None:
    assert nice_top(value) == pytest.approx(top)


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
    return Series(name="maze", points=points, tone="s0", shape=0, band=True, told=True)


def test_a_line_goes_from_edge_to_edge_and_its_marks_tell_their_figures() -> None:
    axes = Axes(first=0, last=2, top=1.0, height=100)
    drawn = lines([_line(0.2, 0.4, 0.8)], axes, label="x")
    assert 'd="M0 80L500 60L1000 20"' in drawn
    marks = re.findall(r'x="([\d.]+)%" y="([\d.]+)" data-round="(\d)" data-value="([\d.]+)"', drawn)
    assert marks == [("0", "80", "0", "0.2"), ("50", "60", "1", "0.4"), ("100", "20", "2", "0.8")]


def test_a_lone_point_shows_its_limits() -> None:
    drawn = lines([_line(0.5)], Axes(first=0, last=0, top=1.0, height=100), label="x")
    assert '<line x1="50%" x2="50%" y1="60.0" y2="40.0">' in drawn


def test_many_points_are_thinned_but_the_first_and_last_stay() -> None:
    axes = Axes(first=0, last=199, top=1.0, height=320)
    drawn = lines([_line(*[0.5] * 200)], axes, label="x")
    rounds = [int(found) for found in re.findall(r'data-round="(\d+)"', drawn)]
    assert rounds[0] == 0
    assert rounds[-1] == 199
    assert len(rounds) <= 27


def test_bars_stand_on_each_other() -> None:
    bars = [Column(round=3, layers=[1.0, 3.0], title="<x>")]
    drawn = columns(bars, ["p0", "p1"], label="x", height=100, show=str)
    assert 'd="M500 100V75"' in drawn
    assert 'd="M500 75V0"' in drawn
    assert "<title>&lt;x&gt;</title>" in drawn


def test_a_chart_without_bars_is_an_empty_frame() -> None:
    assert columns([], ["p0"], label="x", height=100, show=str).count("<rect") == 0
