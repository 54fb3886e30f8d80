"""`hansa status`: how far a federation is, how well it does, and why it is stalled."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hansa.cli import target
from hansa.cli.common import Format, console, print_data
from hansa.cli.target import Wide, now
from hansa.core.errors import InputError

if TYPE_CHECKING:
    from hansa.kubernetes.federations import Federations


def status(
    name: target.OptionalName = None,
    member: target.MemberName = None,
    out: target.OptionalFolder = None,
    output: target.WideOutput = Wide.TABLE,
    all_: Annotated[
        bool, typer.Option("--all", help="Show every round, not only the newest (with --out).")
    ] = False,
    credentials: target.Credentials = None,
    namespace: target.Namespace = None,
    everywhere: Annotated[
        bool, typer.Option("-A", "--all-namespaces", help="Federations of all namespaces.")
    ] = False,
    context: target.Context = None,
    kubeconfig: target.KubeconfigFile = None,
) -> None:
    """Show how far a federation on the cluster is, or a run on this machine (--out).

    Without NAME, --member and --out it lists all federations and members of the namespace.

    --member NAME is a silo's page: its order, the verdict on it, what it has used, what leaves it.

    -o json and -o yaml print the whole object, as kubectl would.
    """
    if out:
        if name or member:
            target.require_one_place(name or member, out)
        _show_run(out, output, all_, credentials)
        return
    if all_:
        raise InputError("--all: got it without --out; on a cluster, -o wide shows all rounds")
    if (name or member) and everywhere:
        raise InputError(f"got NAME ({name or member}) and --all-namespaces, expected one of them")
    if name or member:
        things, chosen = target.open_either(name, member, namespace, context, kubeconfig)
        _show_one(things, chosen, output, is_member=bool(member))
        return
    federations = target.open_federations(namespace, context, kubeconfig, everywhere=everywhere)
    _show_all(federations, output, everywhere)


def _print_as_data(document: dict[str, Any], output: Wide) -> bool:
    """Print a whole object as kubectl would, where -o asks for that."""
    if output in (Wide.TABLE, Wide.WIDE):
        return False
    print_data(document, Format(output.value))
    return True


def _show_one(things: "Federations", name: str, output: Wide, *, is_member: bool) -> None:
    from hansa.cli.screen import render, show
    from hansa.cli.views import federation, member

    if output in (Wide.JSON, Wide.YAML):  # needs no Jobs, Pods and Events
        _print_as_data(things.get(name), output)
        return
    screen = member.screen if is_member else federation.screen
    show(render(screen(things.look(name), now(), wide=output is Wide.WIDE)))


def _show_all(federations: "Federations", output: Wide, everywhere: bool) -> None:
    from hansa.cli.screen import show, table
    from hansa.cli.views import federation, member
    from hansa.kubernetes.federations import FederationMembers

    items = federations.all()
    members = FederationMembers(federations.kube, federations.namespace).some()
    both = {"apiVersion": "v1", "kind": "List", "items": [*items, *members]}
    if _print_as_data(both, output):
        return
    if not items and not members:
        where = "on this cluster" if everywhere else f"in namespace {federations.namespace}"
        console(stderr=True).print(f"no federation {where}: `hansa apply -f FILE` makes one")
        return
    wide = output is Wide.WIDE
    if items:
        show(table(federation.list_federations(items, now(), wide=wide, spaces=everywhere)))
    if items and members:
        print()
    if members:
        show(table(member.list_members(members, now(), wide=wide, spaces=everywhere)))


def _show_run(out: Path, output: Wide, all_: bool, credentials: Path | None) -> None:
    from hansa.cli.screen import render, render_run, show
    from hansa.cli.views import member
    from hansa.kubernetes.federations import FederationView
    from hansa.local.join import is_silo, load
    from hansa.local.rundir import RunDir

    folder = RunDir(out)
    if is_silo(folder):  # of one that takes part in somebody else's federation
        silo = load(folder).to_json()
        if not _print_as_data(silo, output):
            look = FederationView(federation=silo)
            show(render(member.screen(look, now(), wide=output is Wide.WIDE)))
        return
    federation = folder.load()
    if all_:
        from hansa.local.results import load_whole_history

        federation = load_whole_history(federation, folder, credentials)
    if not _print_as_data(federation.to_json(), output):
        show(render_run(federation))
