"""`hansa apply`: check a manifest, hand it to the cluster, and say what that changed."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hansa.cli import target
from hansa.cli.common import Format, print_data, say
from hansa.core.errors import InputError
from hansa.core.text import ellipsize

if TYPE_CHECKING:
    from hansa.kubernetes.federations import Federations

SHOWN_CHANGES = 10


def apply(
    file: target.Manifest,
    cluster: target.ClusterOptions,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Let the cluster check it, and change nothing.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force-conflicts", help="Take over fields that other tools set.")
    ] = False,
    output: target.WideOutput = target.Wide.TABLE,
) -> None:
    """Check a manifest, then create the federation on the cluster or change it."""
    document = _read_checked(file)
    namespace = _choose_namespace(document, cluster.namespace)
    federations = replace(cluster, namespace=namespace).open()
    name = str(document["metadata"]["name"])
    document["metadata"]["namespace"] = federations.namespace
    before = federations.find(name)
    after = _apply(federations, document, dry_run=dry_run, force=force)
    if output in (target.Wide.JSON, target.Wide.YAML):
        print_data(after, Format(output.value))
        return
    did = _describe_outcome(before, after)
    print(f"federation/{name} {did}{' (server dry run)' if dry_run else ''}")
    for line in _list_changes(before, after):
        say(line)
    if not dry_run:
        _say_next_step(after, did, federations)


def _read_checked(file: Path) -> dict[str, Any]:
    """The manifest as the user wrote it, once it has passed the checks of `hansa validate`."""
    from hansa.cli.validate import list_notes
    from hansa.manifests.load import STDIN, build, read

    document = read(file)
    federation = build(document, "standard input" if str(file) == STDIN else str(file))
    if federation.spec.storage is None:
        raise InputError(
            "spec.storage: got nothing, expected storage.s3",
            hint="a cluster has no store of its own; `hansa run` starts one on this machine",
        )
    for note in list_notes(federation):
        say(f"note: {note}")
    document.pop("status", None)
    metadata = document["metadata"]
    kept = ("name", "namespace", "labels", "annotations")
    document["metadata"] = {key: metadata[key] for key in kept if metadata.get(key)}
    return dict(document)


def _choose_namespace(document: dict[str, Any], asked: str | None) -> str | None:
    written = document["metadata"].get("namespace")
    if asked and written and asked != written:
        raise InputError(
            f"--namespace: got {asked}, but metadata.namespace in the manifest is {written}"
        )
    return asked or written


def _apply(
    federations: "Federations", document: dict[str, Any], *, dry_run: bool, force: bool
) -> dict[str, Any]:
    """Server-side apply; what only `hansa suspend` and its kin have set is ours to set again."""
    from hansa.kubernetes.client import ApiError
    from hansa.kubernetes.errors import list_conflicts
    from hansa.kubernetes.federations import MANAGER

    name = str(document["metadata"]["name"])
    try:
        return federations.apply(document, dry_run=dry_run, force=force)
    except ApiError as error:
        owners = {owner for _, owner in list_conflicts(error)}
        if owners != {MANAGER}:
            raise federations.explain(error, name) from error
    try:
        return federations.apply(document, dry_run=dry_run, force=True)
    except ApiError as error:
        raise federations.explain(error, name) from error


def _describe_outcome(before: dict[str, Any] | None, after: dict[str, Any]) -> str:
    if before is None:
        return "created"
    parts = ("labels", "annotations")
    same = before.get("spec") == after.get("spec") and all(
        before["metadata"].get(part) == after["metadata"].get(part) for part in parts
    )
    return "unchanged" if same else "configured"


def _list_changes(before: dict[str, Any] | None, after: dict[str, Any]) -> list[str]:
    if before is None:
        return []
    from hansa.api.spec import differences

    changes = [
        f"  spec.{path}: {_show(old)} -> {_show(new)}"
        for path, old, new in differences(before.get("spec"), after.get("spec"))
    ]
    more = len(changes) - SHOWN_CHANGES
    return [*changes[:SHOWN_CHANGES], *([f"  and {more} more"] if more > 0 else [])]


def _show(value: Any) -> str:
    return ellipsize("(absent)" if value is None else str(value))


def _say_next_step(after: dict[str, Any], did: str, federations: "Federations") -> None:
    name = federations.call(after["metadata"]["name"])
    if (after.get("spec") or {}).get("suspend"):
        say(f"it is suspended: `hansa resume {name}` resumes it")
    elif did == "configured" and (after.get("status") or {}).get("current"):
        say(f"a round is open: settings count from the next one; `hansa watch {name}`")
    else:
        say(f"see it run: `hansa watch {name}`")
