"""Kinds of tasks: how much of each an environment explored, and how often it succeeded."""

import re
from collections.abc import Mapping, Sequence

from hansa.report.charts import SPAN, Axes, Column, layer, legend
from hansa.report.markup import Child, Html, Section, details, percent, section, table, tag
from hansa.report.run_facts import ReportData

MOST_ENVIRONMENTS = 12
_TONES = ("p2", "p5")
_HEIGHT = 24
_MORE = re.compile(r" \+\d+$")

Tallies = Mapping[str, tuple[int, int]]
"""Successes and episodes by kind."""


def show(data: ReportData) -> Section | None:
    """The kinds over rounds, of the environments that have several."""
    explored = {name: rounds for name in data.environments if (rounds := _rounds(data, name))}
    several = [name for name, rounds in explored.items() if len(_names(rounds)) > 1]
    if not several:
        return None
    shown = several[:MOST_ENVIRONMENTS]
    lead = (
        "What each environment explored, by kind of task. A bar is a kind's share of a round's "
        "episodes; beside the bars are successes of the first and the last round."
    )
    if any(_MORE.search(name) for rounds in explored.values() for name in _names(rounds)):
        lead += " “+2” after a name: two more kinds are counted with it."
    if len(shown) < len(several):
        lead += f" The first {len(shown)} of {len(several)}."
    return section(
        "kinds",
        "Kinds of tasks",
        tag("p", lead, class_="lead"),
        legend([("successful", _TONES[0], None), ("not successful", _TONES[1], None)]),
        tag("div", *(_picture(name, explored[name]) for name in shown), class_="pair"),
        details("Figures of kinds", *(_table(name, explored[name]) for name in shown)),
    )


def collect_figures(data: ReportData, name: str) -> dict[str, list[tuple[int, int] | None]]:
    """Successes and episodes of each kind for programs, entry by entry as the page's rounds."""
    rounds = _rounds(data, name)
    return {
        kind: [rounds.get(entry.number, {}).get(kind) for entry in data.rounds]
        for kind in _names(rounds)
    }


def _rounds(data: ReportData, name: str) -> dict[int, Tallies]:
    """What an environment explored round by round, as far as it tells kinds apart."""
    rounds = {e.number: e.parts[name].kinds for e in data.played if name in e.parts}
    return {number: kinds for number, kinds in rounds.items() if kinds}


def _names(rounds: Mapping[int, Tallies]) -> list[str]:
    return sorted({name for kinds in rounds.values() for name in kinds})


def _picture(environment: str, rounds: Mapping[int, Tallies]) -> Html:
    """A row of bars for each kind; all rows have one scale."""
    first, last = min(rounds), max(rounds)
    ends = sorted({first, last})
    shares = {number: _shares(kinds) for number, kinds in rounds.items()}
    top = max(sum(layers) for kinds in shares.values() for layers in kinds.values())
    axes = Axes(first=first, last=last, top=top or 1.0, height=_HEIGHT, slots=True)
    rows: list[Sequence[Child]] = [
        [name, _strip(name, shares, axes), *(_cell(rounds[each], name) for each in ends)]
        for name in _names(rounds)
    ]
    heads = ["kind", "share", *(f"round {each}" for each in ends)]
    caption = f"{environment}: the highest bar is {percent(top)} of a round"
    return table(heads, rows, caption=caption, class_="dense strips")


def _shares(kinds: Tallies) -> dict[str, tuple[float, float]]:
    """Of each kind, what succeeded and what did not, as shares of all episodes."""
    everything = sum(played for _, played in kinds.values()) or 1
    return {
        n: (won / everything, (played - won) / everything) for n, (won, played) in kinds.items()
    }


def _strip(name: str, shares: Mapping[int, Mapping[str, tuple[float, float]]], axes: Axes) -> Html:
    bars = [
        Column(round=number, layers=shares[number].get(name, (0.0, 0.0)), title="")
        for number in sorted(shares)
    ]
    drawing = tag(
        "svg",
        *(layer(bars, index, tone, axes) for index, tone in enumerate(_TONES)),
        viewBox=f"0 0 {SPAN} {_HEIGHT}",
        preserveAspectRatio="none",
        width="100%",
        height=_HEIGHT,
        role="img",
        aria_label=f"Share of {name} in each round, successful and not.",
    )
    return tag("td", drawing)


def _table(environment: str, rounds: Mapping[int, Tallies]) -> Html:
    rows: list[Sequence[Child]] = [
        [name, *(_cell(rounds[number], name) for number in sorted(rounds))]
        for name in _names(rounds)
    ]
    heads = ["kind", *(f"round {number}" for number in sorted(rounds))]
    caption = f"Successes of episodes explored by {environment}"
    return table(heads, rows, caption=caption, class_="dense")


def _cell(kinds: Tallies, name: str) -> str:
    won, played = kinds.get(name, (0, 0))
    return f"{won} of {played}" if played else "–"
