"""Sending an update: adapter, config, and last the manifest that commits them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version

import hansa
from hansa.adapter import lora
from hansa.adapter.lora import Tensors
from hansa.api import bucket_documents, bucket_keys
from hansa.api.assignment import Assignment
from hansa.api.bucket_documents import (
    AuditHead,
    Counts,
    FileEntry,
    Learning,
    UpdateManifest,
)
from hansa.api.privacy import PrivacyStatement
from hansa.core.errors import Denied
from hansa.store import audit_log
from hansa.store.base import ObjectStore, get_if_present, put_once
from hansa.store.documents import parse


@dataclass(frozen=True, kw_only=True)
class Committed:
    """An update that others can read."""

    manifest: UpdateManifest
    """What it is."""
    sha256: str
    """Digest of the manifest's bytes."""

    @property
    def adapter(self) -> str:
        """Digest of its tensors, masked or not; empty where there was nothing to learn from."""
        files, masked = self.manifest.files, self.manifest.masked
        name = bucket_keys.masked_body(masked.epoch) if masked else bucket_keys.ADAPTER
        return files[name].sha256 if files else ""


@dataclass(frozen=True, kw_only=True)
class TrainedUpdate:
    """What a round made, before it is committed."""

    base_model: str
    """Digest of the base model."""
    files: dict[str, FileEntry] = field(default_factory=dict)
    """Files in the folder; none when there was nothing to learn from."""
    counts: Counts
    """What the round did."""
    learning: Learning = field(default_factory=Learning)
    """How exploring and training went beyond that."""
    norm: float = 0.0
    """Norm of the adapter's change."""
    loss: float = 0.0
    """Loss of the last epoch."""
    seconds: dict[str, float]
    """Seconds of each phase."""
    device: str = "cpu"
    """What it was trained on."""
    privacy: PrivacyStatement | None = None
    """The privacy that one record has lost."""


def find_committed(store: ObjectStore, assignment: Assignment) -> Committed | None:
    """This round's update when an earlier attempt has committed it."""
    data = get_if_present(store, update_folder(assignment) + bucket_keys.MANIFEST)
    return parse_committed(assignment, data) if data is not None else None


def find_adapter(store: ObjectStore, assignment: Assignment) -> bytes | None:
    """An adapter that an earlier attempt stored and was killed before it committed."""
    return get_if_present(store, update_folder(assignment) + bucket_keys.ADAPTER)


def store_adapter(store: ObjectStore, assignment: Assignment, tensors: Tensors) -> bytes:
    """Store the adapter; the stored bytes, which may be those of another attempt."""
    return put_once(store, update_folder(assignment) + bucket_keys.ADAPTER, lora.encode(tensors))


def store_moments(store: ObjectStore, assignment: Assignment, make: Callable[[], bytes]) -> bytes:
    """The moments that an earlier attempt stored, or else those made now."""
    key = update_folder(assignment) + bucket_keys.MOMENTS
    stored = get_if_present(store, key)
    return put_once(store, key, make()) if stored is None else stored


def store_config(store: ObjectStore, assignment: Assignment, stored_adapter: bytes) -> bytes:
    """Store the PEFT config beside the adapter."""
    targets = lora.target_names(lora.parse_shapes(stored_adapter, len(stored_adapter)))
    own = lora.render_config(assignment.adapter, assignment.model.source, targets)
    return put_once(store, update_folder(assignment) + bucket_keys.CONFIG, own)


def describe_files(files: dict[str, bytes]) -> dict[str, FileEntry]:
    """Stored files as the manifest describes them."""
    return {
        name: FileEntry(sha256=bucket_documents.sha256(data), size=len(data))
        for name, data in files.items()
    }


def commit(store: ObjectStore, assignment: Assignment, update: TrainedUpdate) -> Committed:
    """Write the manifest: from here on the update exists, and never changes."""
    inputs, made = assignment.inputs(), {**vars(update)}
    versions = audit_log.collect_versions(torch=version("torch"), device=made.pop("device"))
    own = UpdateManifest(
        program=hansa.__version__,
        environment=assignment.environment,
        round=assignment.round,
        fingerprint=bucket_documents.fingerprint(inputs),
        inputs=inputs,
        start=assignment.start,
        audit=_find_audit_head(store, assignment),
        made_with=versions,
        sealed_to=assignment.settings.aggregation.seal_to if update.files else None,
        trained=bool(update.files),
        **made,
    )
    data = bucket_documents.canonical(own.to_json())
    return parse_committed(
        assignment, put_once(store, update_folder(assignment) + bucket_keys.MANIFEST, data)
    )


def _find_audit_head(store: ObjectStore, assignment: Assignment) -> AuditHead | None:
    """The audit log's newest entry; a silo whose key may not read it sends its update all the same.

    Where nothing is merged there is no log.
    """
    if assignment.settings.aggregation.strategy == "none":
        return None
    try:
        return audit_log.find_head(store, assignment.storage.prefix, assignment.round)
    except Denied:
        return None


def update_folder(assignment: Assignment) -> str:
    """Where this round's update lies in the exchange."""
    prefix = assignment.storage.prefix
    return bucket_keys.update_folder(prefix, assignment.environment, assignment.round)


def parse_committed(assignment: Assignment, data: bytes) -> Committed:
    """An update's manifest as it is stored; Corrupt, or AnotherRun, where it is not this one's."""
    document = parse(UpdateManifest, update_folder(assignment) + bucket_keys.MANIFEST, data)
    bucket_documents.check_same_run(assignment.place, document.inputs, assignment.inputs())
    return Committed(manifest=document, sha256=bucket_documents.sha256(data))
