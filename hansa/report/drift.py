"""Whether the agent began to break rules or to forget, round by round, where there are probes."""

from collections.abc import Sequence

from hansa.api.probes import ProbeSummary
from hansa.report.markup import Child, Html, Section, percent, section, table, tag
from hansa.report.run_facts import ReportData


def show(data: ReportData) -> Section | None:
    """A table of what most environments confirm, and one of what each says of the newest."""
    history = data.federation.status.history
    said = [(entry.round, entry.outcome, entry.probes) for entry in history if entry.probes]
    if not said:
        return None
    names = sorted({name for _, _, each in said for name in (*each.violations, *each.forgotten)})
    lead = (
        "Every environment plays the same probes on the same adapter. A share is that of episodes "
        "that broke a rule; nats are those per token by which texts are less likely than without "
        "an adapter. What more than half of the environments confirm counts."
    )
    rows: list[Sequence[Child]] = [
        [f"{number} ({outcome})" if number else "base", *(_cell(each, n, number) for n in names)]
        for number, outcome, each in said
    ]
    lines = [line for line in data.federation.status.environments if line.probes]
    own: list[Sequence[Child]] = [
        [line.name, line.probes.round, *(_text(line.probes, name) for name in names)]
        for line in lines
        if line.probes
    ]
    return section(
        "drift",
        "Drift",
        tag("p", lead, class_="lead"),
        table(["round", *names], rows, caption="Probes, by round", class_="dense"),
        table(
            ["environment", "of round", *names],
            own,
            caption="What each environment says of the newest adapter",
            class_="dense",
        ),
    )


def _cell(said: ProbeSummary, name: str, number: int) -> Html:
    value = said.violations.get(name, said.forgotten.get(name))
    return tag(
        "td",
        _text(said, name),
        data_probe=name,
        data_round=number,
        data_value=None if value is None else f"{value:.6g}",
    )


def _text(said: ProbeSummary, name: str) -> str:
    if name in said.violations:
        return percent(said.violations[name])
    return f"{said.forgotten[name]:+.3f} nats" if name in said.forgotten else "–"
