"""Screens and tables on a terminal; without colour, and in whole lines, in a pipe.

Much of what they show was written by Pods and by strangers: no text reaches the terminal unseen.
"""

from collections.abc import Iterator

from rich.console import Console, Group, RenderableType, group
from rich.table import Table
from rich.text import Text

from hansa.api.status import Federation
from hansa.cli.views.federation import RowTable as Rows
from hansa.cli.views.federation import StatusView, format_joined
from hansa.core.sanitize import sanitize
from hansa.core.stats import average
from hansa.core.text import count
from hansa.plan.policy import drift

STYLES = {
    "Succeeded": "green",
    "Updated": "green",
    "Running": "cyan",
    "Working": "cyan",
    "Refusing": "bold red",
    "Waiting": "yellow",
    "Failed": "bold red",
    "Retrying": "yellow",
    "Starting": "yellow",
    "Queued": "yellow",
    "Suspended": "yellow",
    "success": "green",
    "failure": "red",
}
"""Colours of phases, states and the ends of episodes."""
TROUBLE = {
    *(("Accepted", "False"), ("Degraded", "True")),
    *(("Connected", "False"), ("Allowed", "False")),
}
"""Conditions that somebody should read first."""
WRAPPED = {"ABOUT", "MISSING", "VERIFIED", "MESSAGE", "JOB", "OBJECT"}
"""Columns of prose and long names, folded where the terminal is narrow."""
PIPE_COLUMNS = 100_000
"""A pipe has no edge: `hansa status | grep` sees whole lines."""


def wide_console() -> Console:
    """Stdout; lines are folded for a terminal, and left whole for a pipe."""
    console = Console(highlight=False)
    if console.is_terminal:
        return console
    return Console(highlight=False, width=PIPE_COLUMNS)


def show(screen: RenderableType) -> None:
    """Print a table or a screen."""
    wide_console().print(screen, crop=False)


@group()
def render(screen: StatusView) -> Iterator[RenderableType]:
    """The screen, ready to print or to redraw."""
    name, _, rest = screen.headline.partition(": ")
    headline = plain(f"{name}: ", "bold")
    yield headline.append(plain(rest, STYLES.get(screen.phase, "")))
    for line in screen.lines:
        yield plain(f"  {line}")
    for warning in screen.warnings:
        yield plain(f"  ! {warning}", "bold yellow")
    for rows in screen.tables:
        yield Text("")
        yield table(rows)
    if screen.footer:
        yield Text("")
    for line in screen.footer:
        yield plain(line)


def plain(text: str, style: str = "") -> Text:
    """A text in which nothing is markup, and nothing steers the terminal."""
    return Text(sanitize(text), style=style)


def table(rows: Rows) -> RenderableType:
    """Rows as kubectl prints them: no lines, two spaces between columns."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in rows.titles:
        made.add_column(title, overflow="fold", no_wrap=title not in WRAPPED)
    for row in rows.rows:
        made.add_row(*_cells(row))
    return Group(made, plain(rows.rest, "dim")) if rows.rest else made


def _cells(row: tuple[str, ...]) -> list[Text]:
    trouble = row[:2] in TROUBLE
    return [
        plain(cell, "bold red" if trouble and i < 2 else STYLES.get(cell, ""))
        for i, cell in enumerate(row)
    ]


# A run on this machine: state, rounds, and what merging brought


@group()
def render_run(federation: Federation) -> Iterator[RenderableType]:
    """The screen, ready to print or to redraw."""
    status = federation.status
    success = f", success {float(status.success):.1%}" if status.success else ""
    rounds = f"{status.completed} of {count(federation.spec.rounds, 'round')}"
    name = Text(federation.metadata.name, "bold")
    yield name.append(f": {status.phase}, {rounds}{success}", "not bold")
    # A failed round's message has its causes: the other condition would only repeat them.
    shown = ("Progressing",) if status.failed else ("Progressing", "Degraded")
    for condition in status.conditions:
        if condition.message and condition.type in shown:
            # Text, since a message may have brackets, which are no style of ours.
            yield Text(sanitize(f"  {condition.type}: {condition.reason}: {condition.message}"))
    yield _history(federation)
    for said in drift.describe_probes(status):
        yield Text(f"  {said}")
    for line in status.environments:
        if line.epsilon is not None:
            yield Text(f"  {line.name}: epsilon {line.epsilon:.3g} of one record so far")
        if line.gain:
            gain = 100 * float(line.gain)
            pays = f"{float(line.own):.1%} before merging, which brought {gain:+.1f} points"
            yield Text(f"  {line.name}: {pays}")
        if line.serves:
            yield Text(f"  {line.name}: serves {line.serves}, {float(line.personal):.1%}")
        if line.joined:
            yield Text(f"  {format_joined(line.to_json())}")


def _history(federation: Federation) -> Table:
    names = [environment.name for environment in federation.status.environments]
    table = Table(box=None, pad_edge=False)
    for title in ("round", "outcome", "updates", "mean", *names):
        table.add_column(title, justify="right")
    for entry in federation.status.history:
        values = [average(entry.success, names), *map(entry.success.get, names)]
        cells = [f"{v:.1%}" if v is not None else "" for v in values]
        table.add_row(str(entry.round), entry.outcome, entry.updates, *cells)
    return table
