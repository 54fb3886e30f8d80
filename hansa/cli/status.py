"""`hansa status`: how far a federation is, how well it does, and why it is stalled."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hansa.cli import target
from hansa.cli.common import Format, console, print_data, say
from hansa.cli.target import Wide, now
from hansa.core.errors import HansaError, InputError

if TYPE_CHECKING:
    from hansa.kubernetes.federations import Federations
    from hansa.local.rundir import RunDir


Data = dict[str, Any]


def status(
    cluster: target.ClusterOptions,
    run: target.OptionalRun = None,
    member: target.MemberName = None,
    output: target.WideOutput = Wide.TABLE,
    all_: Annotated[
        bool, typer.Option("--all", help="Show every round of a run on this machine.")
    ] = False,
    credentials: target.Credentials = None,
    everywhere: Annotated[
        bool, typer.Option("-A", "--all-namespaces", help="Federations of all namespaces.")
    ] = False,
) -> None:
    """Show how far a run on this machine is, or a federation on the cluster.

    Without RUN and --member it lists all federations and members of the namespace, and without a
    cluster the runs in this folder and in runs/.

    --member NAME is a silo's page: its order, the verdict on it, what it has used, what leaves it.

    -o json and -o yaml print the whole object, as kubectl would.
    """
    folder = cluster.find_run(run) if run and not member else None
    if folder:
        _show_run(folder, output, all_, credentials)
        return
    if all_:
        raise InputError("--all: it is for a run's folder; on a cluster, -o wide shows all rounds")
    if (run or member) and everywhere:
        raise InputError(f"got {run or member} and --all-namespaces, expected one of them")
    if run or member:
        things, chosen = cluster.open_either(run, member)
        _show_one(things, chosen, output, is_member=bool(member))
        return
    _show_all(cluster, output, everywhere)


def _print_as_data(document: Data, output: Wide) -> bool:
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


def _show_all(cluster: target.ClusterOptions, output: Wide, everywhere: bool) -> None:
    from hansa.kubernetes.federations import FederationMembers
    from hansa.kubernetes.kubeconfig import NoCluster
    from hansa.local.rundir import list_runs

    try:
        federations = cluster.open(everywhere=everywhere)
        items = federations.all()
        members = FederationMembers(federations.kube, federations.namespace).some()
    except HansaError as error:
        if cluster.is_chosen or everywhere or not (folders := list_runs()):
            raise
        if not isinstance(error, NoCluster):
            say(f"note: no federation of the cluster is listed: {error.message}")
        _list(*_read_runs(folders, output), output)
        return
    if not items and not members and output in (Wide.TABLE, Wide.WIDE):
        where = "on this cluster" if everywhere else f"in namespace {federations.namespace}"
        console(stderr=True).print(f"no federation {where}: `hansa apply FILE` makes one")
        return
    _list(items, members, output, everywhere=everywhere)


def _read_runs(folders: "list[RunDir]", output: Wide) -> tuple[list[Data], list[Data]]:
    """Runs and silos of this machine; a table names them by their folders."""
    from hansa.local.join import is_silo, load

    runs: list[Data] = []
    silos: list[Data] = []
    for folder in folders:
        try:
            item = (load(folder) if is_silo(folder) else folder.load()).to_json()
        except InputError as error:
            say(error.message)
            continue
        if output in (Wide.TABLE, Wide.WIDE):
            item["metadata"]["name"] = str(folder.path)
            if item["status"].get("phase") == "Running" and not folder.is_running():
                item["status"]["phase"] = "Stopped"
        (silos if is_silo(folder) else runs).append(item)
    return runs, silos


def _list(
    items: list[Data], members: list[Data], output: Wide, *, everywhere: bool = False
) -> None:
    from hansa.cli.screen import show, table
    from hansa.cli.views import federation, member

    both = {"apiVersion": "v1", "kind": "List", "items": [*items, *members]}
    if _print_as_data(both, output):
        return
    wide = output is Wide.WIDE
    if items:
        show(table(federation.list_federations(items, now(), wide=wide, spaces=everywhere)))
    if items and members:
        print()
    if members:
        show(table(member.list_members(members, now(), wide=wide, spaces=everywhere)))


def _show_run(folder: "RunDir", output: Wide, all_: bool, credentials: Path | None) -> None:
    from hansa.cli.screen import render, render_run, show
    from hansa.cli.views import member
    from hansa.kubernetes.federations import FederationView
    from hansa.local.join import is_silo, load

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
