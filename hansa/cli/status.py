"""`hansa status`: how far a federation is, how well it does, and why it is stalled."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hansa.cli.common import Format, console, print_data
from hansa.cli.target import (
    Context,
    KubeconfigFile,
    MemberName,
    Namespace,
    OptionalFolder,
    OptionalName,
    Wide,
    WideOutput,
    now,
    one_of,
    open_federations,
    open_members,
)
from hansa.core.errors import InputError

if TYPE_CHECKING:
    from hansa.kubernetes.federations import FederationMembers, Federations
    from hansa.local.rundir import RunDir

Folder = Annotated[Path, typer.Option("--out", help="Folder of the run.")]
Credentials = Annotated[
    Path | None,
    typer.Option(help="Credentials file, as for `hansa run`; only for a store of your own."),
]


def status(
    name: OptionalName = None,
    member: MemberName = None,
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

    Without NAME, --member and --out it lists all federations and members of the namespace.

    --member NAME is a silo's page: its order, the verdict on it, what it has used, what leaves it.

    -o json and -o yaml print the whole object, as kubectl would.
    """
    if out:
        if name or member:
            one_of(name or member, out)
        _show_run(out, output, all_, credentials)
        return
    if all_:
        raise InputError("--all: got it without --out; on a cluster, -o wide shows all rounds")
    if (name or member) and everywhere:
        raise InputError(f"got NAME ({name or member}) and --all-namespaces, expected one of them")
    if name and member:
        raise InputError(f"got NAME ({name}) and --member ({member}), expected one of them")
    if member:
        _show_member(open_members(namespace, context, kubeconfig), member, output)
        return
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
    from hansa.cli.views.federation import screen

    show(render(screen(federations.look(name), now(), wide=output is Wide.WIDE)))


def _show_member(members: "FederationMembers", name: str, output: Wide) -> None:
    if output in (Wide.JSON, Wide.YAML):
        print_data(members.get(name), Format(output.value))
        return
    from hansa.cli.screen import render, show
    from hansa.cli.views.member import screen

    show(render(screen(members.look(name), now(), wide=output is Wide.WIDE)))


def _show_all(federations: "Federations", output: Wide, everywhere: bool) -> None:
    from hansa.kubernetes.federations import FederationMembers

    items = federations.all()
    members = FederationMembers(federations.kube, federations.namespace).some()
    if output in (Wide.JSON, Wide.YAML):
        both = {"apiVersion": "v1", "kind": "List", "items": [*items, *members]}
        print_data(both, Format(output.value))
        return
    if not items and not members:
        where = "on this cluster" if everywhere else f"in namespace {federations.namespace}"
        console(stderr=True).print(f"no federation {where}: `hansa apply -f FILE` makes one")
        return
    from hansa.cli.screen import show, table
    from hansa.cli.views import federation as view
    from hansa.cli.views import member as memberview

    if items:
        show(table(view.listing(items, now(), wide=output is Wide.WIDE, spaces=everywhere)))
    if items and members:
        print()
    if members:
        show(table(memberview.listing(members, now(), wide=output is Wide.WIDE, spaces=everywhere)))


def _show_run(out: Path, output: Wide, all_: bool, credentials: Path | None) -> None:
    from hansa.local.join import is_silo
    from hansa.local.rundir import RunDir

    folder = RunDir(out)
    if is_silo(folder):
        _show_silo(folder, output)
        return
    federation = folder.load()
    if all_:
        from hansa.local.results import whole_history

        federation = whole_history(federation, folder, credentials)
    if output in (Wide.JSON, Wide.YAML):
        print_data(federation.to_json(), Format(output.value))
        return
    from hansa.cli.runscreen import run_screen
    from hansa.cli.screen import show

    show(run_screen(federation))


def _show_silo(folder: "RunDir", output: Wide) -> None:
    """The page of a silo that takes part in somebody else's federation."""
    from hansa.local.join import load

    silo = load(folder)
    if output in (Wide.JSON, Wide.YAML):
        print_data(silo.to_json(), Format(output.value))
        return
    from hansa.cli.screen import render, show
    from hansa.cli.views.member import screen
    from hansa.kubernetes.federations import Look

    show(render(screen(Look(federation=silo.to_json()), now(), wide=output is Wide.WIDE)))
