"""`hansa status`: how far a run is and how well it does."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hansa.cli.common import Format, Output, console, print_data

if TYPE_CHECKING:
    from hansa.status import Federation

Folder = Annotated[Path, typer.Option("--out", help="Folder of the run.")]
Credentials = Annotated[
    Path | None,
    typer.Option(help="The file that `hansa run` was given, where the store is your own."),
]


def status(
    out: Folder,
    output: Output = Format.TABLE,
    all_: Annotated[
        bool, typer.Option("--all", help="Every round, read from the manifests in the store.")
    ] = False,
    credentials: Credentials = None,
) -> None:
    """Show how far a run is; -o json prints the whole Federation object as kubectl would."""
    from hansa.local.rundir import RunDir

    folder = RunDir(out)
    federation = folder.load()
    if all_:
        from hansa.local.results import whole_history

        federation = whole_history(federation, folder, credentials)
    if output is not Format.TABLE:
        print_data(federation.to_json(), output)
        return
    _print(federation)


def _print(federation: "Federation") -> None:
    from rich.table import Table

    state = federation.status
    screen = console()
    success = f", success {float(state.success):.1%}" if state.success else ""
    screen.print(
        f"[bold]{federation.metadata.name}[/]: {state.phase}, "
        f"{state.completed} of {federation.spec.rounds} rounds{success}"
    )
    for condition in state.conditions:
        if condition.message and condition.type in ("Progressing", "Degraded"):
            screen.print(f"  {condition.type}: {condition.reason}: {condition.message}")
    names = [environment.name for environment in state.environments]
    table = Table(box=None, pad_edge=False)
    for title in ("round", "outcome", "updates", "mean", *names):
        table.add_column(title, justify="right")
    for entry in state.history:
        values = [entry.success.get(name) for name in names]
        known = [value for value in values if value is not None]
        average = sum(known) / len(known) if known and len(known) == len(names) else None
        cells = [f"{v:.1%}" if v is not None else "" for v in (average, *values)]
        table.add_row(str(entry.round), entry.outcome, entry.updates, *cells)
    screen.print(table)
