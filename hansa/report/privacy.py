"""Epsilon: what each silo has revealed of one record by each round, bounded by spec.privacy."""

from collections.abc import Sequence

from hansa.report.markup import Child, Section, figure, format_short, section, table, tag
from hansa.report.run_facts import EnvironmentRound, ReportData
from hansa.report.success import draw_environment_legend, draw_part_lines


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
    drawn = draw_part_lines(data, "epsilon", label="Epsilon, by environment.", show=format_short)
    rows: list[Sequence[Child]] = [
        [entry.number, *(_format_epsilon(entry.parts.get(name)) for name in data.environments)]
        for entry in data.played
    ]
    heads = ["round", *data.environments]
    return section(
        "privacy",
        "Privacy",
        tag("p", lead, class_="lead"),
        figure("Epsilon after each round", drawn, draw_environment_legend(data)),
        table(heads, rows, caption="Epsilon, per round and environment", class_="dense"),
    )


def _format_epsilon(part: EnvironmentRound | None) -> str:
    return format_short(part.epsilon) if part else "–"
