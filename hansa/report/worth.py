"""The page's answer to who brought what: each silo's value to the others, and who found so."""

from hansa.contributions import Measured, to_others
from hansa.intervals import Interval
from hansa.report.facts import ReportData
from hansa.report.markup import (
    Child,
    Html,
    Section,
    change,
    counted,
    direction,
    points,
    section,
    table,
    tag,
)


def show(data: ReportData) -> Section | None:
    """A row for each silo that somebody has measured; nothing where nobody has."""
    measured = data.federation.status.contributions or {}
    names = [name for name in data.environments if to_others(name, measured)]
    if not names:
        return None
    judges = sorted(measured)
    lead = (
        "What the merge of a round gains by a silo's update: success of the merge less that of the "
        "merge without it, on validation tasks of the others, as a mean over them and over rounds."
    )
    hint = (
        "In percentage points, with 95\u202f% limits; coloured where they exclude zero. A column "
        "is one silo's own word. Near zero is who brings nothing new, or brings what another does."
    )
    shown = table(
        ["silo", "to the others", "measured", *(f"to {judge}" for judge in judges)],
        [_row(name, measured, judges) for name in names],
        caption="What each silo's updates bring the others",
        class_="figures",
    )
    above, below = tag("p", lead, class_="lead"), tag("p", hint, class_="hint")
    return section("contributions", "Who brought what?", above, shown, below)


def _row(name: str, measured: dict[str, Measured], judges: list[str]) -> list[Child]:
    value = to_others(name, measured)
    if value is None:
        return []
    limits, rounds = value
    return [
        name,
        change(limits),
        counted(rounds, "round"),
        *(_cell(name, judge, measured[judge]) for judge in judges),
    ]


def _cell(name: str, judge: str, measured: Measured) -> Html | str:
    worth = measured.worth.get(name)
    if worth is None or name == judge:
        return "–"
    half = 1.96 * worth.error
    limits = Interval(worth.value - half, worth.value, worth.value + half)
    return tag("span", points(worth.value), class_=direction(limits))
