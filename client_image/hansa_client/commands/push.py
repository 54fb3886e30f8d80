"""`hansa push`: an adapter of a run to a model hub or a registry, with its card."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from hansa.adapter import model_card
from hansa.cli.common import Format, Output, print_data, say
from hansa.cli.target import Run, StoreAccess
from hansa.core.errors import InputError
from hansa.core.sanitize import sanitize
from hansa.publish import hub, parcel, registry
from hansa.publish.bucket import set_endpoint
from hansa.publish.parcel import Item
from hansa.publish.place import HubPlace, RegistryPlace, parse
from hansa.publish.tracked_run import read_document
from hansa_client.commands.dataset import Dataset
from hansa_client.commands.silos import open_silos

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
        help="Also publish this silo's episodes, as a dataset; shows ten of them and asks.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class PushOptions:
    """Options of the command, beside the run and the target."""

    base: str | None
    license: str | None
    public: bool
    force: bool


@dataclass(frozen=True, kw_only=True)
class Shipment:
    """Files and their target, before anything is sent."""

    to: HubPlace | RegistryPlace
    items: Sequence[Item]
    message: str
    """Of the commit."""
    target: hub.HubRepository | None = None
    """The hub's repository."""
    manifest: bytes = b""
    """The registry's manifest."""

    def to_json(self) -> dict[str, Any]:
        """All that would be published."""
        text = next(each.content for each in self.items if each.name == model_card.NAME).decode()
        facts = (
            {"public": self.target.is_public, "new": not self.target.head} if self.target else {}
        )
        files = [each.to_json() for each in self.items]
        return {"to": str(self.to), **facts, "files": files, "card": text}


def push(
    run: Run,
    access: StoreAccess,
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
    output: Output = Format.TABLE,
) -> None:
    """Publish an adapter with a model card, on the Hugging Face hub or in a registry of images.

    No text of an episode, no option of a world and no address leaves. Pushing again sends what is
    new, and nothing twice.
    """
    place = parse("--to", to)
    asked = PushOptions(base=base, license=license_, public=public, force=force)
    if trajectories_of and not isinstance(place, HubPlace):
        raise InputError(f"--trajectories: got it with {to}, expected --to hf:org/name")
    if isinstance(place, HubPlace) and place.revision:
        raise InputError(f"--to: got {to}, expected hf:org/name without a revision")
    result = _read(run, round_, access)
    shipments = [_prepare(result, place, asked)]
    if trajectories_of and isinstance(place, HubPlace):
        with open_silos(access.find(run), access.credentials) as silos:
            dataset = Dataset.read(silos, trajectories_of)
        shipments.append(_prepare_dataset(dataset, place, asked, shipments[0]))
        dataset.show_some()
        if not (dry_run or yes):
            _confirm(dataset, shipments[1])
    if dry_run:
        _print(shipments, output)
        return
    sent = [_send(each, force=force) for each in shipments]
    _print_sent(sent, output)


def _read(run: str, round_: str, access: StoreAccess) -> parcel.GlobalAdapter:
    """The adapter of a run on this machine, or of a federation on the cluster."""
    source = access.find_folder(run) or set_endpoint(
        read_document(access.open().get(run)), access.endpoint
    )
    return parcel.read(source, round_, access.credentials)


# -- what leaves ----------------------------------------------------------------------------------


def _prepare(
    result: parcel.GlobalAdapter, place: HubPlace | RegistryPlace, asked: PushOptions
) -> Shipment:
    federation = result.data.federation
    on_hub = isinstance(place, HubPlace)
    origin = federation.spec.model.source
    base = parcel.choose_base_name(origin, asked.base, on_hub=on_hub)
    message = f"Adapter of round {result.round} of {federation.metadata.name}"
    if not isinstance(place, HubPlace):
        license_ = _choose_license(asked.license, "")
        items = parcel.pack(result, base, license_)
        notes = {registry.LICENSES: license_} if license_ else {}
        made = registry.manifest(items, notes)
        return Shipment(to=place, items=items, message=message, manifest=made)
    there = hub.Hub()
    facts = there.base(base)
    if not asked.force:
        parcel.check_weights(origin, base, facts.weights)
    license_ = _choose_license(asked.license, facts.license)
    if not license_:
        raise InputError(
            f"--license: got nothing, and the hub names none of {base.name}, "
            "expected one like apache-2.0"
        )
    at_commit = base._replace(revision=facts.commit)
    items = parcel.pack(result, at_commit, license_, place.repository)
    target = there.look(place, hub.MODEL, public=asked.public, force=asked.force)
    return Shipment(to=place, items=items, message=message, target=target)


def _choose_license(asked: str | None, known: str) -> str:
    """A licence's short name; other text is refused, since it is written into the card."""
    if asked is None:
        return known if parcel.is_license(known) else ""
    if not parcel.is_license(asked):
        raise InputError(f"--license: got {asked!r}, expected an identifier like apache-2.0")
    return asked


def _prepare_dataset(
    dataset: Dataset, place: HubPlace, asked: PushOptions, adapter: Shipment
) -> Shipment:
    to = HubPlace(f"{place.repository}-{dataset.environment}")
    parse("--trajectories", str(to))
    target = hub.Hub().look(to, hub.DATASET, public=asked.public, force=asked.force)
    items = dataset.make_files(_choose_license(asked.license, ""), place.repository)
    message = f"{len(dataset.episodes)} episodes of {dataset.environment}"
    return Shipment(to=to, items=items, message=message, target=target)


def _confirm(dataset: Dataset, shipment: Shipment) -> None:
    """Ask for confirmation after the samples; without a terminal, refuse."""
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
        print(
            f"{document['to']}{_describe_repository(document)}: "
            "nothing was sent; these files would be"
        )
        for file in document["files"]:
            print(f"  {file['sha256']}  {file['size']:>12,}  {file['name']}")
        print(f"\n{sanitize(document['card'])}")


def _describe_repository(document: dict[str, Any]) -> str:
    """A hub's repository in words: who may read it, and whether it is new."""
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


def _print_sent(sent: Sequence[dict[str, Any]], output: Format) -> None:
    if output is not Format.TABLE:
        print_data(list(sent), output)
        return
    for each in sent:
        print(each["address"])
        news = "pushed" if each["new"] else "holds these files already; nothing was sent"
        say(f"{each['to']}{_describe_repository({**each, 'new': False})}: {news}")
