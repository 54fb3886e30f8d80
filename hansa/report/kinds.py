"""Kinds of tasks: how much of each an environment explored, and how often it succeeded."""

from collections.abc import Mapping, Sequence

from hansa.intervals import Interval
from hansa.report.charts import Axes, Column, Series, columns, legend, lines
from hansa.report.facts import ReportData
from hansa.report.markup import (
    Child,
    Html,
    Section,
    details,
    figure,
    percent,
    section,
    table,
    tag,
)

MOST_ENVIRONMENTS = 12
MOST_KINDS = 5
"""Kinds with a colour of their own: those played most; the others are one."""
MOST_ROWS = 100
"""Kinds in a table."""
OTHERS = "others"

Tallies = Mapping[str, tuple[int, int]]
"""Successes and episodes by kind."""


def show(data: ReportData) -> Section | None:
    """Shares and success of the kinds, of the environments that have several."""
    explored = {name: _rounds(data, name) for name in data.environments}
    several = [name for name, rounds in explored.items() if len(_most_played(rounds)) > 1]
    if not several:
        return None
    shown = several[:MOST_ENVIRONMENTS]
    lead = "What each environment explored, by kind of task, and how often it succeeded there."
    if len(shown) < len(several):
        lead += f" The first {len(shown)} of {len(several)}."
    tables = [_table(name, explored[name]) for name in shown]
    return section(
        "kinds",
        "Kinds of tasks",
        tag("p", lead, class_="lead"),
        tag("div", *(one for name in shown for one in _pair(name, explored[name])), class_="pair"),
        details("Figures of kinds", *tables),
    )


def _rounds(data: ReportData, name: str) -> dict[int, Tallies]:
    rounds = {e.number: e.parts[name].kinds for e in data.played if name in e.parts}
    return {number: kinds for number, kinds in rounds.items() if kinds}


def _most_played(rounds: Mapping[int, Tallies]) -> list[str]:
    """All kinds, those with most episodes first."""
    episodes: dict[str, int] = {}
    for kinds in rounds.values():
        for kind, (_, played) in kinds.items():
            episodes[kind] = episodes.get(kind, 0) + played
    return sorted(episodes, key=lambda kind: (-episodes[kind], kind))


def _pair(name: str, rounds: Mapping[int, Tallies]) -> list[Html]:
    ranked = _most_played(rounds)
    own = sorted(kind for kind in ranked[:MOST_KINDS] if kind != OTHERS)
    names = [*own, OTHERS] if len(ranked) > len(own) else own
    drawn = {number: _merged(kinds, own) for number, kinds in rounds.items()}
    bars = [
        Column(round=number, layers=_shares(kinds, names), title=_title(number, kinds, names))
        for number, kinds in drawn.items()
    ]
    tones = [f"p{place}" for place in range(len(names))]
    shares = columns(
        bars, tones, label=f"Share of each kind, {name}.", height=150, show=percent, top=1.0
    )
    series = [
        Series(name=kind, points=_rates(drawn, kind), tone=f"s{place}", shape=place)
        for place, kind in enumerate(names)
    ]
    axes = Axes(first=bars[0].round, last=bars[-1].round, top=1.0, height=150)
    titles = [(bar.round, bar.title) for bar in bars]
    rates = lines(series, axes, label=f"Success of each kind, {name}.", titles=titles)
    return [
        figure(
            f"{name}: share of episodes",
            shares,
            legend([(kind, tone, None) for kind, tone in zip(names, tones, strict=True)]),
        ),
        figure(
            f"{name}: success while exploring",
            rates,
            legend([(one.name, one.tone, one.shape) for one in series]),
        ),
    ]


def _merged(kinds: Tallies, own: Sequence[str]) -> dict[str, tuple[int, int]]:
    """The kinds that have a colour, and the sum of the others."""
    rest = [tally for kind, tally in kinds.items() if kind not in own]
    others = sum(won for won, _ in rest), sum(played for _, played in rest)
    return {**{kind: kinds.get(kind, (0, 0)) for kind in own}, OTHERS: others}


def _shares(kinds: Tallies, names: Sequence[str]) -> list[float]:
    everything = sum(played for _, played in kinds.values()) or 1
    return [kinds[kind][1] / everything for kind in names]


def _rates(rounds: Mapping[int, Tallies], kind: str) -> list[tuple[int, Interval]]:
    tallies = {number: kinds[kind] for number, kinds in rounds.items()}
    rates = {number: won / played for number, (won, played) in tallies.items() if played}
    return [(number, Interval(rate, rate, rate)) for number, rate in rates.items()]


def _title(number: int, kinds: Tallies, names: Sequence[str]) -> str:
    rates = [f"{kind}: {kinds[kind][0]} of {kinds[kind][1]}" for kind in names if kinds[kind][1]]
    return "\n".join([f"round {number}", *rates])


def _table(name: str, rounds: Mapping[int, Tallies]) -> Html:
    numbers = sorted(rounds)
    rows: list[Sequence[Child]] = [
        [kind, *(_cell(rounds[number].get(kind)) for number in numbers)]
        for kind in sorted(_most_played(rounds)[:MOST_ROWS])
    ]
    heads = ["kind", *(f"round {number}" for number in numbers)]
    caption = f"Successes of episodes explored by {name}"
    return table(heads, rows, caption=caption, class_="dense")


def _cell(tally: tuple[int, int] | None) -> str:
    return f"{tally[0]} of {tally[1]}" if tally else "–"
