"""What each silo has given away of one record, round by round, where spec.privacy bounds it."""

from collections.abc import Sequence

from hansa.report.markup import Child, Section, figure, section, short, table, tag
from hansa.report.run_facts import EnvironmentRound, ReportData
from hansa.report.success import environment_legend, part_lines


def show(data: ReportData) -> Section | None:
    """The curve of epsilon, and its figures by environment."""
    privacy = data.federation.spec.privacy
    if privacy is None:
        return None
    if not data.played:
        nothing = tag("p", "No round has ended yet: nothing was given away.", class_="empty")
        return section("privacy", "Privacy", nothing)
    lead = (
        f"Whoever sees all that left a silo learns at most this epsilon about one "
        f"{privacy.unit} of it, at a delta of {privacy.delta:g}; the spec allows "
        f"{privacy.epsilon:g}. It is each silo's word."
    )
    drawn = part_lines(data, _epsilon, label="Epsilon, by environment.", show=short)
    rows: list[Sequence[Child]] = [
        [entry.number, *(_shown(entry.parts.get(name)) for name in data.environments)]
        for entry in data.played
    ]
    heads = ["round", *data.environments]
    return section(
        "privacy",
        "Privacy",
        tag("p", lead, class_="lead"),
        figure("Epsilon after each round", drawn, environment_legend(data)),
        table(heads, rows, caption="Epsilon, per round and environment", class_="dense"),
    )


def _epsilon(part: EnvironmentRound) -> float | None:
    return part.epsilon


def _shown(part: EnvironmentRound | None) -> str:
    return short(part.epsilon) if part else "–"
