"""`hansa push`: an adapter of a run to a model hub or a registry, with its card."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from hansa.adapter import model_card
from hansa.cli.common import Format, Output, print_data, say
from hansa.cli.status import Credentials
from hansa.cli.target import Context, KubeconfigFile, Namespace, open_federations
from hansa.core.errors import InputError
from hansa.core.sanitize import visible
from hansa.local.rundir import RunDir
from hansa.publish import hub, parcel, registry, source
from hansa.publish.bucket import Endpoint, at_endpoint
from hansa.publish.parcel import Item
from hansa.publish.place import HubPlace, RegistryPlace, parse
from hansa.publish.tracked_run import read_document
from hansa_client.commands import trajectories
from hansa_client.commands.dataset import Dataset

Base = Annotated[
    str | None,
    typer.Option(help="What the hub calls the base, as org/name@revision; default: the run's."),
]
License = Annotated[
    str | None,
    typer.Option("--license", help="Licence for the card; default: the base's, by the hub."),
]
Trajectories = Annotated[
    str | None,
    typer.Option(
        "--trajectories",
        metavar="ENVIRONMENT",
        help="Publish this silo's episodes, too, as a dataset; shows ten of them and asks.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the command line says beside the run and the place."""

    base: str | None
    license: str | None
    public: bool
    force: bool


@dataclass(frozen=True, kw_only=True)
class Shipment:
    """Files and the place that they go to, before anything is sent."""

    to: HubPlace | RegistryPlace
    items: Sequence[Item]
    message: str
    """Of the commit."""
    target: hub.HubRepository | None = None
    """The hub's repository."""
    manifest: bytes = b""
    """The registry's manifest."""

    def to_json(self) -> dict[str, Any]:
        """All that would leave."""
        text = next(each.content for each in self.items if each.name == model_card.NAME).decode()
        facts = (
            {"public": self.target.is_public, "new": not self.target.head} if self.target else {}
        )
        files = [each.to_json() for each in self.items]
        return {"to": str(self.to), **facts, "files": files, "card": text}


def push(
    run: Annotated[
        str,
        typer.Argument(metavar="RUN", help="Folder of a run, or a federation on the cluster."),
    ],
    to: Annotated[str, typer.Option("--to", help="hf:org/name or oci://host/repository:tag.")],
    round_: Annotated[
        str, typer.Option("--round", help="Which adapter: a round's number, last or best.")
    ] = "last",
    base: Base = None,
    license_: License = None,
    public: Annotated[
        bool, typer.Option("--public", help="Let everybody read a repository that is made.")
    ] = False,
    trajectories_of: Trajectories = None,
    yes: Annotated[bool, typer.Option("--yes", help="Publish episodes without asking.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print all that would leave, and send nothing.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Push into a place with something else in it.")
    ] = False,
    credentials: Credentials = None,
    endpoint: Endpoint = None,
    output: Output = Format.TABLE,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: KubeconfigFile = None,
) -> None:
    """Publish an adapter with a model card, on the Hugging Face hub or in a registry of images.

    No text of an episode, no option of a world and no address leaves. Pushing again sends what is
    new, and nothing twice.
    """
    place = parse("--to", to)
    asked = Asked(base=base, license=license_, public=public, force=force)
    if trajectories_of and not isinstance(place, HubPlace):
        raise InputError(f"--trajectories: got it with {to}, expected --to hf:org/name")
    if isinstance(place, HubPlace) and place.revision:
        raise InputError(f"--to: got {to}, expected hf:org/name without a revision")
    cluster = (namespace, context, kubeconfig)
    result = _read(run, round_, credentials, endpoint, cluster)
    shipments = [_prepare(result, place, asked)]
    if trajectories_of and isinstance(place, HubPlace):
        with trajectories.open_silos(run, credentials, endpoint, cluster) as silos:
            dataset = Dataset.of(silos, trajectories_of)
        shipments.append(_prepare_dataset(dataset, place, asked, shipments[0]))
        dataset.show_some()
        if not (dry_run or yes):
            _confirm(dataset, shipments[1])
    if dry_run:
        _print(shipments, output)
        return
    sent = [_send(each, force=force) for each in shipments]
    _tell(sent, output)


def _read(
    run: str,
    round_: str,
    credentials: Path | None,
    endpoint: str | None,
    cluster: tuple[str | None, ...],
) -> source.GlobalAdapter:
    """The adapter of a folder that is there, or of a federation on the cluster."""
    path = Path(run)
    if path.is_dir() or path.name != run:
        if not RunDir(path).object.exists():
            raise InputError(f"RUN: got {run}, which holds no run", hint="hansa run makes one")
        if endpoint:
            raise InputError("--endpoint: got it with a folder; it is for a run on a cluster")
        return source.of_run(RunDir(path), round_, credentials)
    try:
        document = open_federations(*cluster).get(run)
    except InputError as error:
        hint = f"there is no folder {run} here, so it was looked for on a cluster"
        raise InputError(error.message, hint=error.hint or hint) from error
    return source.of_federation(at_endpoint(read_document(document), endpoint), round_, credentials)


# -- what leaves ----------------------------------------------------------------------------------


def _prepare(
    result: source.GlobalAdapter, place: HubPlace | RegistryPlace, asked: Asked
) -> Shipment:
    federation = result.data.federation
    on_hub = isinstance(place, HubPlace)
    origin = federation.spec.model.source
    base = parcel.named_base(origin, asked.base, on_hub=on_hub)
    message = f"Adapter of round {result.round} of {federation.metadata.name}"
    if not isinstance(place, HubPlace):
        wishes = parcel.Wishes(base=base, license=_license(asked.license, ""))
        items = parcel.pack(result, wishes)
        notes = {registry.LICENSES: wishes.license} if wishes.license else {}
        made = registry.manifest(items, notes)
        return Shipment(to=place, items=items, message=message, manifest=made)
    there = hub.Hub()
    facts = there.base(base)
    if not asked.force:
        parcel.check_weights(origin, base, facts.weights)
    license_ = _license(asked.license, facts.license)
    if not license_:
        raise InputError(
            f"--license: got nothing, and the hub names none of {base.name}, "
            "expected one like apache-2.0"
        )
    wishes = parcel.Wishes(
        base=base._replace(revision=facts.commit), license=license_, adapter=place.repository
    )
    target = there.look(place, hub.MODEL, public=asked.public, force=asked.force)
    return Shipment(to=place, items=parcel.pack(result, wishes), message=message, target=target)


def _license(asked: str | None, known: str) -> str:
    """A licence's short name; one that could be more than a word in the card is refused."""
    if asked is None:
        return known if parcel.is_license(known) else ""
    if not parcel.is_license(asked):
        raise InputError(f"--license: got {asked!r}, expected an identifier like apache-2.0")
    return asked


def _prepare_dataset(
    dataset: Dataset, place: HubPlace, asked: Asked, adapter: Shipment
) -> Shipment:
    to = HubPlace(f"{place.repository}-{dataset.environment}")
    parse("--trajectories", str(to))
    target = hub.Hub().look(to, hub.DATASET, public=asked.public, force=asked.force)
    items = dataset.files(_license(asked.license, ""), place.repository)
    message = f"{len(dataset.episodes)} episodes of {dataset.environment}"
    return Shipment(to=to, items=items, message=message, target=target)


def _confirm(dataset: Dataset, shipment: Shipment) -> None:
    """Ask the person, who has seen ten of them; nobody there is a no."""
    count, to = len(dataset.episodes), shipment.to
    if not sys.stdin.isatty():
        raise InputError(
            f"--trajectories: got {dataset.environment}, and nobody is there to confirm that its "
            f"{count} episodes become the dataset {to}",
            hint="--yes says so in a script; nothing was sent",
        )
    readers = "public" if shipment.target and shipment.target.is_public else "private"
    question = f"Publish {count} episodes of {dataset.environment} as the {readers} dataset {to}?"
    typer.confirm(question, abort=True, err=True)


# -- what is done with it -------------------------------------------------------------------------


def _print(shipments: Sequence[Shipment], output: Format) -> None:
    documents = [each.to_json() for each in shipments]
    if output is not Format.TABLE:
        print_data(documents, output)
        return
    for document in documents:
        print(f"{document['to']}{_kind(document)}: nothing was sent; these files would be")
        for file in document["files"]:
            print(f"  {file['sha256']}  {file['size']:>12,}  {file['name']}")
        print(f"\n{visible(document['card'])}")


def _kind(document: dict[str, Any]) -> str:
    """What is known of a hub's repository: who reads it, and whether it is there."""
    if "public" not in document:
        return ""
    new = ", to be made" if document["new"] else ""
    return f" ({'public' if document['public'] else 'private'}{new})"


def _send(shipment: Shipment, *, force: bool) -> dict[str, Any]:
    if isinstance(shipment.to, RegistryPlace):
        pushed = registry.push(shipment.to, shipment.items, shipment.manifest, force=force)
        where = f"oci://{shipment.to.host}/{shipment.to.repository}@{pushed.digest}"
        return {"to": str(shipment.to), "address": where, "new": pushed.is_new}
    if shipment.target is None:
        raise AssertionError("a shipment to the hub has looked at its target")
    made = hub.Hub().push(shipment.target, shipment.items, shipment.message)
    return {
        "to": str(shipment.to),
        "address": made.url,
        "commit": made.commit,
        "public": shipment.target.is_public,
        "new": made.is_new,
    }


def _tell(sent: Sequence[dict[str, Any]], output: Format) -> None:
    if output is not Format.TABLE:
        print_data(list(sent), output)
        return
    for each in sent:
        print(each["address"])
        news = "pushed" if each["new"] else "holds these files already; nothing was sent"
        say(f"{each['to']}{_kind({**each, 'new': False})}: {news}")
