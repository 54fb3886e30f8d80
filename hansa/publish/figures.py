"""Sections of a public model card: success, curve and settings, and nothing of an episode.

Options of worlds stay out, and so do texts that could name a machine, a file or a Secret: a
setting is shown where it is a number, a switch or a plain word.
"""

import re
from collections.abc import Sequence
from typing import Any

from hansa.api.status import RoundSettings
from hansa.core.sanitize import sanitize
from hansa.core.stats import Interval
from hansa.core.text import shorten
from hansa.report.markup import Html, percent, tag
from hansa.report.run_facts import ReportData, Round
from hansa.report.run_settings import flatten_settings, list_differing

CURVE = "success.svg"
MOST_LINES = 24
"""Environments that are drawn; the table has all."""
_HIDDEN = re.compile(r"secret|url|endpoint|host|address|path|file|name|key|token$|model\.", re.I)
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,39}")
_WIDTH, _HEIGHT, _LEFT, _TOP, _RIGHT, _BOTTOM = 680, 320, 52, 20, 20, 36


def write_sections(data: ReportData, round_: int) -> str:
    """Markdown: how it does, how it was made, what it does not promise."""
    return "\n".join([*_success(data, round_), *_settings(data, round_), *_LIMITS])


_LIMITS = (
    "## Limits\n",
    "The silos kept their episodes and sent adapters alone. That is no differential privacy: an",
    "adapter can remember what it was trained on.\n",
)


def _rounds(data: ReportData, round_: int) -> list[Round]:
    return [entry for entry in data.evaluated if entry.number <= round_]


def _success(data: ReportData, round_: int) -> list[str]:
    evaluated = {entry.number: entry for entry in _rounds(data, round_)}
    base, last = evaluated.get(0), evaluated.get(round_)
    if last is None:
        return ["## Success\n", f"The adapter of round {round_} has not been evaluated.\n"]
    rows = [
        [
            _cell(name),
            _cell(data.world(name)),
            _limits(base.scores[name].interval if base and name in base.scores else None),
            _limits(score.interval),
            str(score.episodes or "–"),
        ]
        for name in data.environments
        if (score := last.scores.get(name))
    ]
    mean = ["**mean**", "", _limits(base.success if base else None), _limits(last.success), ""]
    heads = ["environment", "world", "base", f"round {round_}", "episodes"]
    return [
        "## Success\n",
        "Share of held-out tasks that succeed, which nobody trains on; in brackets the limits",
        "of 95 %.\n",
        *_table(heads, [*rows, mean]),
        f"![Success of each round's adapter]({CURVE})\n",
    ]


def _limits(rate: Interval | None) -> str:
    if rate is None:
        return "–"
    values = (rate.value, rate.low, rate.high)
    value, low, high = (percent(each).replace("\u202f", " ") for each in values)
    return f"{value} ({low} to {high})"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [heads, ["---"] * len(heads), *rows]
    return [*(f"| {' | '.join(line)} |" for line in lines), ""]


def _cell(text: object) -> str:
    """Text that stays in its cell, whatever a stranger named a thing."""
    plain = shorten(sanitize(text), 80)
    return re.sub(r"([\\|`*_<>\[\]!])", r"\\\1", plain)


# -- settings ---------------------------------------------------------------------------------


def _settings(data: ReportData, round_: int) -> list[str]:
    rows = [
        [f"`{path}`", _cell(_text(value)), _cell(_text(usual))]
        for path, value, usual in list_differing(_find_settings(data, round_))
        if _is_public(path, value)
    ]
    spec = data.federation.spec
    strategy = spec.aggregation.strategy
    about = (
        f"{len(spec.environments)} environments explored, trained and sent adapters in {round_} "
        f"rounds; `{strategy}` merged them. Settings that are not the defaults:\n"
    )
    return ["## How it was made\n", about, *_table(["setting", "value", "default"], rows)]


def _find_settings(data: ReportData, round_: int) -> dict[str, Any]:
    """Settings of the round that made the adapter, by its manifest, or else of the spec."""
    for entry in data.rounds:
        if entry.number == round_ and entry.inputs:
            return entry.inputs.settings
    spec = data.federation.spec
    return flatten_settings({**spec.to_json(), **RoundSettings.from_spec(spec).to_json()})


def _is_public(path: str, value: Any) -> bool:
    if _HIDDEN.search(path) and not isinstance(value, int | float):
        return False
    if isinstance(value, str):
        return bool(_WORD.fullmatch(value))
    return isinstance(value, int | float)


def _text(value: Any) -> str:
    if value is None:
        return "–"
    return str(value).lower() if isinstance(value, bool) else str(value)


# -- the curve --------------------------------------------------------------------------------


def draw_curve(data: ReportData, round_: int) -> str:
    """Success per round as an SVG of its own: each environment thin, the mean bold."""
    rounds = _rounds(data, round_)
    last = max([entry.number for entry in rounds], default=0) or 1
    thin = [
        _line([(e.number, e.scores[name].ratio) for e in rounds if name in e.scores], last, name)
        for name in data.environments[:MOST_LINES]
    ]
    means = [(entry.number, entry.success.value) for entry in rounds if entry.success]
    bold = _line(means, last, "mean", stroke="#1f4e79", stroke_width=3)
    marks = [
        tag("circle", cx=_x(number, last), cy=_y(value), r=4, fill="#1f4e79")
        for number, value in means
    ]
    drawing = tag(
        "svg",
        tag("rect", width=_WIDTH, height=_HEIGHT, fill="#ffffff"),
        *_grid(last),
        *thin,
        bold,
        *marks,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        width=_WIDTH,
        height=_HEIGHT,
        font_family="sans-serif",
        font_size=12,
        fill="#444444",
    )
    return f"{drawing}\n"


def _x(number: int, last: int) -> str:
    return f"{_LEFT + (_WIDTH - _LEFT - _RIGHT) * number / last:.1f}"


def _y(ratio: float) -> str:
    return f"{_TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - ratio):.1f}"


def _grid(last: int) -> list[Html]:
    shapes = []
    for quarter in (0.0, 0.25, 0.5, 0.75, 1.0):
        height = _y(quarter)
        shapes.append(
            tag("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=height, y2=height, stroke="#dddddd")
        )
        shapes.append(tag("text", f"{quarter:.0%}", x=_LEFT - 8, y=height, text_anchor="end"))
    step = max(1, -(-last // 10))
    for number in range(0, last + 1, step):
        shapes.append(tag("text", number, x=_x(number, last), y=_HEIGHT - 14, text_anchor="middle"))
    return shapes


def _line(
    points: Sequence[tuple[int, float]],
    last: int,
    name: str,
    stroke: str = "#9db4c8",
    stroke_width: float = 1.5,
) -> Html:
    places = " ".join(f"{_x(number, last)},{_y(ratio)}" for number, ratio in points)
    title = tag("title", name)
    return tag(
        "polyline", title, points=places, fill="none", stroke=stroke, stroke_width=stroke_width
    )
