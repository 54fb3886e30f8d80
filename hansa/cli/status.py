"""`hansa status`: how far a federation is, how well it does, and why it waits."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hansa.cli.common import Format, console, print_data
from hansa.cli.target import (
    Context,
    KubeconfigFile,
    Namespace,
    OptionalFolder,
    OptionalName,
    Wide,
    WideOutput,
    now,
    one_of,
    open_federations,
)
from hansa.errors import InputError

if TYPE_CHECKING:
    from hansa.cluster.federations import Federations
    from hansa.status import Federation

Folder = Annotated[Path, typer.Option("--out", help="Folder of the run.")]
Credentials = Annotated[
    Path | None,
    typer.Option(help="Credentials file, as for `hansa run`; only for a store of your own."),
]


def status(
    name: OptionalName = None,
    out: OptionalFolder = None,
    output: WideOutput = Wide.TABLE,
    all_: Annotated[
        bool, typer.Option("--all", help="Show every round, not only the newest (with --out).")
    ] = False,
    credentials: Credentials = None,
    namespace: Namespace = None,
    everywhere: Annotated[
        bool, typer.Option("-A", "--all-namespaces", help="Federations of all namespaces.")
    ] = False,
    context: Context = None,
    kubeconfig: KubeconfigFile = None,
) -> None:
    """Show how far a federation on the cluster is, or a run on this machine (--out).

    Without NAME and --out it lists all federations of the namespace.

    -o json and -o yaml print the whole Federation object, as kubectl would.
    """
    if out:
        if name:
            one_of(name, out)
        _show_run(out, output, all_, credentials)
        return
    if all_:
        raise InputError("--all: got it without --out; on a cluster, -o wide shows all rounds")
    if name and everywhere:
        raise InputError(f"got NAME ({name}) and --all-namespaces, expected one of them")
    federations = open_federations(namespace, context, kubeconfig, everywhere=everywhere)
    if name:
        _show_one(federations, name, output)
    else:
        _show_all(federations, output, everywhere)


def _show_one(federations: "Federations", name: str, output: Wide) -> None:
    if output in (Wide.JSON, Wide.YAML):
        print_data(federations.get(name), Format(output.value))
        return
    from hansa.cli.screen import render, show
    from hansa.cluster.view import screen

    show(render(screen(federations.look(name), now(), wide=output is Wide.WIDE)))


def _show_all(federations: "Federations", output: Wide, everywhere: bool) -> None:
    found = federations.all()
    if output in (Wide.JSON, Wide.YAML):
        print_data({"apiVersion": "v1", "kind": "List", "items": found}, Format(output.value))
        return
    if not found:
        where = "on this cluster" if everywhere else f"in namespace {federations.namespace}"
        console(stderr=True).print(f"no federation {where}: `hansa apply -f FILE` makes one")
        return
    from hansa.cli.screen import show, table
    from hansa.cluster.view import listing

    show(table(listing(found, now(), wide=output is Wide.WIDE, spaces=everywhere)))


def _show_run(out: Path, output: Wide, all_: bool, credentials: Path | None) -> None:
    from hansa.local.rundir import RunDir

    folder = RunDir(out)
    federation = folder.load()
    if all_:
        from hansa.local.results import whole_history

        federation = whole_history(federation, folder, credentials)
    if output in (Wide.JSON, Wide.YAML):
        print_data(federation.to_json(), Format(output.value))
        return
    _print(federation)


def _print(federation: "Federation") -> None:
    from rich.table import Table
    from rich.text import Text

    state = federation.status
    screen = console()
    success = f", success {float(state.success):.1%}" if state.success else ""
    name = Text(federation.metadata.name, "bold")
    rounds = f"{state.completed} of {federation.spec.rounds} rounds"
    screen.print(name.append(f": {state.phase}, {rounds}{success}", "not bold"))
    for condition in state.conditions:
        if condition.message and condition.type in ("Progressing", "Degraded"):
            # Text, since a message may have brackets, which are no style of ours.
            screen.print(Text(f"  {condition.type}: {condition.reason}: {condition.message}"))
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
    for line in state.environments:
        if line.gain:
            pays = (
                f"{float(line.own):.1%} alone, merging brought {100 * float(line.gain):+.1f} points"
            )
            screen.print(Text(f"  {line.name}: {pays}"))
        if line.serves:
            screen.print(Text(f"  {line.name}: serves {line.serves}, {float(line.personal):.1%}"))
