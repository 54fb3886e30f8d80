"""The page's question for each silo: does joining pay, or would its own update do better alone?"""

from hansa.intervals import difference
from hansa.report.facts import ReportData, Round, Score
from hansa.report.markup import Child, Html, percent, points, table, tag


def sections(data: ReportData) -> list[Html]:
    """The comparison, where environments measured their own updates (evaluation.ownUpdate)."""
    rows = [row for name in data.environments if (row := _row(data, name))]
    if not rows:
        return []
    heads = ["environment", "round", "global adapter", "own update", "difference"]
    lead = (
        "The newest round in which both are known: an environment's own update before it was "
        "merged, and the global adapter that came of it, on the same held-out tasks."
    )
    hint = "In brackets: 95\u202f% intervals (Newcombe), in percentage points."
    heading = tag("h2", "Does joining pay?", id="joining")
    return [
        tag(
            "section",
            heading,
            tag("p", lead, class_="lead"),
            table(heads, rows, label="Global adapter and own update", class_="figures"),
            tag("p", hint, class_="hint"),
            aria_labelledby="joining",
        )
    ]


def _row(data: ReportData, name: str) -> list[Child] | None:
    known = [entry for entry in data.rounds if name in entry.own and name in entry.scores]
    if not known:
        return None
    newest = known[-1]
    shared, own = newest.scores[name], _own(newest, name)
    gain = difference(shared.interval, own.interval)
    brackets = f"[{points(gain.low)}, {points(gain.high)}]"
    return [
        name,
        newest.number,
        percent(shared.ratio),
        percent(own.ratio),
        f"{points(gain.value)} {brackets}",
    ]


def _own(entry: Round, name: str) -> Score:
    """Measured on the tasks of the global adapter, so it is worth as many episodes."""
    shared = entry.scores[name]
    return Score(ratio=entry.own[name], episodes=shared.episodes, effective=shared.effective)
