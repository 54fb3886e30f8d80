"""The screen of a run on this machine: state, rounds, and what merging brought."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hansa.api.status import EnvironmentStatus, Federation
from hansa.core.sanitize import sanitize
from hansa.core.text import count
from hansa.plan.policy import drift, joined


def render_run(federation: Federation) -> Group:
    """The screen, ready to print or to redraw."""
    return Group(*_parts(federation))


def _parts(federation: Federation) -> Iterator[RenderableType]:
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
            yield Text(f"  {summarize_joining(line)}")


def summarize_joining(line: EnvironmentStatus) -> str:
    """What an environment had alone, has and serves, and what joining brought it."""
    return joined.format_line(
        line.name,
        alone=_percent(line.alone),
        shared=_percent(line.success),
        served=_percent(line.personal),
        sentence=line.joined,
    )


def _percent(ratio: str) -> str:
    return f"{float(ratio):.1%}" if ratio else ""


def _history(federation: Federation) -> Table:
    names = [environment.name for environment in federation.status.environments]
    table = Table(box=None, pad_edge=False)
    for title in ("round", "outcome", "updates", "mean", *names):
        table.add_column(title, justify="right")
    for entry in federation.status.history:
        values = [entry.success.get(name) for name in names]
        known = [value for value in values if value is not None]
        average = sum(known) / len(known) if known and len(known) == len(names) else None
        cells = [f"{v:.1%}" if v is not None else "" for v in (average, *values)]
        table.add_row(str(entry.round), entry.outcome, entry.updates, *cells)
    return table
