"""Writing the audit log: what a round was computed from, and its result.

An entry depends on the assignment and the store alone, and on no clock: an aggregator that was
killed before it wrote one writes the same when it runs again.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

import hansa
from hansa.api import bucket_documents, bucket_keys
from hansa.api.assignment import Assignment
from hansa.api.bucket_documents import AuditHead, GlobalManifest, MadeWith, Refusal
from hansa.core.errors import Corrupt, Denied
from hansa.store import audit_log
from hansa.store.audit_log import AuditEntry
from hansa.store.base import ObjectStore, get_if_present, put_once
from hansa.store.documents import parse

CLIENT_SETTINGS = ("exploration", "experience", "training")
"""Settings that the gate compares with what an update says it was made with."""


def describe_versions() -> MadeWith:
    """Versions of the software that merges."""
    return audit_log.collect_versions(numpy=np.__version__)


@dataclass(frozen=True, kw_only=True)
class LogPosition:
    """Where in the log a round's entry belongs."""

    previous: AuditHead | None
    """The entry before."""
    is_taken: bool
    """Whether this round or a later one has an entry: then none is added."""


def find_place(store: ObjectStore, assignment: Assignment) -> LogPosition:
    """The entry's place; read before the merge, since no round may end without a log."""
    prefix, round_ = assignment.storage.prefix, assignment.round
    try:
        rounds = audit_log.find_rounds(store, prefix)
        previous = audit_log.find_head(store, prefix, round_, rounds)
    except Denied as error:
        raise Denied(
            f"{bucket_keys.audit_root(prefix)}: {error.message}",
            hint="the aggregator writes an audit log there: print its policy again with "
            "`hansa policy FILE aggregator`",
        ) from None
    return LogPosition(previous=previous, is_taken=any(each >= round_ for each in rounds))


def write_result(
    store: ObjectStore, assignment: Assignment, place: LogPosition, data: bytes
) -> str | None:
    """The entry of a round whose global manifest is stored; its digest."""
    key = (
        bucket_keys.global_folder(assignment.storage.prefix, assignment.round)
        + bucket_keys.MANIFEST
    )
    made = parse(GlobalManifest, key, data)
    if assignment.masking:  # late members are missing in the assignment
        assignment = assignment.model_copy(update={"members": made.members})
    entry = _build_entry(store, assignment, place, {r.environment: r.reason for r in made.refused})
    facts = {
        "program": made.program,
        "fingerprint": made.fingerprint,
        "inputs": made.inputs,
        "result": bucket_documents.sha256(data),
        "made_with": made.made_with,
    }
    return _write(store, assignment, place, entry.model_copy(update=facts))


def write_failure(
    store: ObjectStore,
    assignment: Assignment,
    place: LogPosition,
    refused: Mapping[str, str],
) -> str | None:
    """The entry of a round in which too few updates passed the gate; its digest."""
    return _write(store, assignment, place, _build_entry(store, assignment, place, refused))


def _build_entry(
    store: ObjectStore,
    assignment: Assignment,
    place: LogPosition,
    refused: Mapping[str, str],
) -> AuditEntry:
    inputs, settings = assignment.inputs(), assignment.settings.to_json()
    owner = get_if_present(store, bucket_keys.federation(assignment.storage.prefix))
    return AuditEntry(
        program=hansa.__version__,
        round=assignment.round,
        previous=place.previous,
        fingerprint=bucket_documents.fingerprint(inputs),
        inputs=inputs,
        settings={name: settings[name] for name in CLIENT_SETTINGS},
        minimum=assignment.minimum,
        base_model=assignment.model.sha256,
        shapes=assignment.adapter.shapes,
        owner=bucket_documents.sha256(owner) if owner is not None else None,
        members=sorted(assignment.members, key=lambda member: member.environment),
        refused=[Refusal(environment=e, reason=r) for e, r in sorted(refused.items())],
        made_with=describe_versions(),
    )


def _write(
    store: ObjectStore, assignment: Assignment, place: LogPosition, entry: AuditEntry
) -> str | None:
    """Write the entry, and return its digest; an existing entry must have the same result.

    A round without an entry gets none after a later round has one: the chain would not include it.
    """
    key = bucket_keys.audit_entry(assignment.storage.prefix, assignment.round)
    if place.is_taken:
        stored = get_if_present(store, key)
        if stored is None:
            return None
    else:
        whole = entry.model_copy(update={"sha256": entry.digest()})
        stored = put_once(store, key, bucket_documents.canonical(whole.to_json()))
    if parse(AuditEntry, key, stored).result != entry.result:
        raise Corrupt(f"{key}: got an entry of another result, expected this round's")
    return bucket_documents.sha256(stored)
