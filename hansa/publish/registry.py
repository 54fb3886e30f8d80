"""Adapters in an OCI registry, laid out as ORAS does it: a manifest, and a layer for a file.

Blobs go first and the manifest last, so a push that was killed is resumed, and a tag never names
half an adapter. Equal files give an equal manifest with an equal digest.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hansa.adapter import model_card
from hansa.api import bucket_keys
from hansa.api.bucket_documents import sha256
from hansa.core.canonical import parse_object
from hansa.core.errors import Corrupt, HansaError, InputError
from hansa.publish import figures
from hansa.publish.parcel import FILES, Item
from hansa.publish.place import RegistryPlace
from hansa.publish.wire import RegistryRepository

ARTIFACT = "application/vnd.hansa.adapter.v1"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
EMPTY = "application/vnd.oci.empty.v1+json"
TITLE = "org.opencontainers.image.title"
LICENSES = "org.opencontainers.image.licenses"
KINDS = {
    bucket_keys.ADAPTER: "application/vnd.safetensors",
    bucket_keys.CONFIG: "application/json",
    model_card.NAME: "text/markdown",
    figures.CURVE: "image/svg+xml",
}
LARGEST_MANIFEST = 4 << 20
"""Bytes; what registries themselves take at most."""
LARGEST_FILE = 64 << 30
_NOTHING = b"{}"


@dataclass(frozen=True, kw_only=True)
class RegistryPush:
    """What a push has done."""

    digest: str
    """Digest of the manifest: it always names exactly these files."""
    is_new: bool
    """Whether the tag was created or moved."""


def manifest(items: Sequence[Item], notes: dict[str, str]) -> bytes:
    """The artifact as a manifest of OCI 1.1; without a timestamp, equal files give equal bytes."""
    layers = [
        {**_descriptor(KINDS[each.name], each.content), "annotations": {TITLE: each.name}}
        for each in items
    ]
    document = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "artifactType": ARTIFACT,
        "config": {**_descriptor(EMPTY, _NOTHING), "data": "e30="},
        "layers": layers,
        "annotations": notes,
    }
    return json.dumps(document, indent=2, sort_keys=True).encode()


def push(place: RegistryPlace, items: Sequence[Item], made: bytes, *, force: bool) -> RegistryPush:
    """Send missing blobs, then the manifest; only --force moves a tag of something else."""
    if place.is_digest:
        raise InputError(f"--to: got {place}, expected a tag: a digest follows from the files")
    wire = RegistryRepository(place, "push,pull")
    digest = _digest(made)
    if (there := _get_manifest(wire, place)) is not None:
        if _digest(there) == digest:
            return RegistryPush(digest=digest, is_new=False)
        if not force and _parse_manifest(there, place).get("artifactType") != ARTIFACT:
            raise InputError(
                f"--to: got {place}, which is something else than an adapter that hansa pushed",
                hint="take another tag; --force moves this one",
            )
    for content in (_NOTHING, *(each.content for each in items)):
        _put_blob(wire, content)
    headers = {"Content-Type": MANIFEST}
    answer = wire.ask("PUT", f"/manifests/{place.reference}", body=made, headers=headers)
    said = answer.headers.get("docker-content-digest", digest)
    if answer.status != 201 or said != digest:
        raise wire.refusal("the manifest", answer)
    return RegistryPush(digest=digest, is_new=True)


def pull(place: RegistryPlace) -> tuple[str, list[Item]]:
    """The adapter's files, each by its digest; the manifest's digest."""
    wire = RegistryRepository(place, "pull")
    raw = _get_manifest(wire, place)
    if raw is None:
        raise InputError(f"NAME: got {place}, which the registry does not have")
    digest = _digest(raw)
    if place.is_digest and digest != place.reference:
        raise Corrupt(f"{place}: its manifest's bytes are not what the digest says")
    layers = _parse_manifest(raw, place).get("layers")
    titled: dict[str, Any] = {}
    for each in layers if isinstance(layers, list) else []:
        notes = each.get("annotations") if isinstance(each, dict) else None
        name = notes.get(TITLE) if isinstance(notes, dict) else None
        if name in FILES:
            titled[str(name)] = each
    return digest, [
        Item(name, _get_blob(wire, place, name, titled[name])) for name in sorted(titled)
    ]


def _descriptor(kind: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": kind, "digest": _digest(content), "size": len(content)}


def _digest(content: bytes) -> str:
    return f"sha256:{sha256(content)}"


def _get_manifest(wire: RegistryRepository, place: RegistryPlace) -> bytes | None:
    """A manifest's bytes; None where there is none."""
    path = f"/manifests/{place.reference}"
    answer = wire.ask("GET", path, headers={"Accept": MANIFEST}, most=LARGEST_MANIFEST)
    if answer.status == 404:
        return None
    if answer.status != 200:
        raise wire.refusal("a manifest", answer)
    return answer.content


def _parse_manifest(raw: bytes, place: RegistryPlace) -> dict[str, Any]:
    document = parse_object(raw)
    if document is None:
        raise HansaError(f"{place}: its manifest is no JSON object")
    return document


def _put_blob(wire: RegistryRepository, content: bytes) -> None:
    digest = _digest(content)
    if wire.ask("HEAD", f"/blobs/{digest}").status == 200:
        return
    began = wire.ask("POST", "/blobs/uploads/", body=b"")
    location = began.headers.get("location")
    if began.status != 202 or not location:
        raise wire.refusal("an upload", began)
    headers = {"Content-Type": "application/octet-stream"}
    ended = wire.upload(location, digest, content, headers)
    if ended.status != 201:
        raise wire.refusal("a file", ended)


def _get_blob(
    wire: RegistryRepository, place: RegistryPlace, name: str, entry: dict[str, Any]
) -> bytes:
    digest, size = entry.get("digest"), entry.get("size")
    is_known = isinstance(digest, str) and digest.startswith("sha256:") and len(digest) == 71
    if not is_known or not isinstance(size, int) or not 0 <= size <= LARGEST_FILE:
        raise HansaError(f"{place}: {name}: its layer has no SHA-256 or no size")
    answer = wire.ask("GET", f"/blobs/{digest}", most=size, follow=True)
    if answer.status != 200:
        raise wire.refusal(name, answer)
    if _digest(answer.content) != digest:
        raise Corrupt(f"{place}: {name}: its bytes are not what the manifest's digest says")
    return answer.content
