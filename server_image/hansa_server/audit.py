"""Writing the audit log: what a round was computed from and what came of it, once and for all.

An entry follows from the assignment and from what is stored, and from no clock: an aggregator that
was killed before it wrote one writes the same when it is run again.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

import hansa
from hansa import audit, keys, manifest
from hansa.assignment import Assignment
from hansa.audit import AuditEntry
from hansa.errors import Corrupt, Denied, NotFound
from hansa.manifest import AuditHead, GlobalManifest, MadeWith, Refusal
from hansa.store.base import ObjectStore, put_once
from hansa.store.documents import parse

CLIENT_SETTINGS = ("exploration", "experience", "training")
"""Settings that the gate compares with what an update says it was made with."""


def made_with() -> MadeWith:
    """What merges here."""
    return audit.made_with(numpy=np.__version__)


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where in the log a round's entry belongs."""

    previous: AuditHead | None
    """The entry before."""
    is_taken: bool
    """Whether there is one of this round or a later one: then nothing is put in between."""


def find_place(store: ObjectStore, assignment: Assignment) -> Place:
    """Where the entry will go; asked for first, since without a log no round may end."""
    prefix, round_ = assignment.storage.prefix, assignment.round
    try:
        rounds = audit.find_rounds(store, prefix)
        previous = audit.find_head(store, prefix, round_, rounds)
    except Denied as error:
        raise Denied(
            f"{keys.audit_root(prefix)}: {error.message}",
            hint="the aggregator writes an audit log there: print its policy again with "
            "`hansa policy aggregator`",
        ) from None
    return Place(previous=previous, is_taken=any(each >= round_ for each in rounds))


def write_result(
    store: ObjectStore, assignment: Assignment, place: Place, data: bytes
) -> str | None:
    """The entry of a round whose global manifest is stored; its digest."""
    key = keys.global_folder(assignment.storage.prefix, assignment.round) + keys.MANIFEST
    made = parse(GlobalManifest, key, data)
    if assignment.masking:  # some of whom may have been late, and in no assignment
        assignment = assignment.model_copy(update={"members": made.members})
    entry = _entry(store, assignment, place, {r.environment: r.reason for r in made.refused})
    facts = {
        "program": made.program,
        "fingerprint": made.fingerprint,
        "inputs": made.inputs,
        "result": manifest.sha256(data),
        "made_with": made.made_with,
    }
    return _write(store, assignment, place, entry.model_copy(update=facts))


def write_failure(
    store: ObjectStore,
    assignment: Assignment,
    place: Place,
    refused: Mapping[str, str],
) -> str | None:
    """The entry of a round in which too few updates passed the gate; its digest."""
    return _write(store, assignment, place, _entry(store, assignment, place, refused))


def _entry(
    store: ObjectStore,
    assignment: Assignment,
    place: Place,
    refused: Mapping[str, str],
) -> AuditEntry:
    inputs, settings = assignment.inputs(), assignment.settings.to_json()
    return AuditEntry(
        program=hansa.__version__,
        round=assignment.round,
        previous=place.previous,
        fingerprint=manifest.fingerprint(inputs),
        inputs=inputs,
        settings={name: settings[name] for name in CLIENT_SETTINGS},
        minimum=assignment.minimum,
        base_model=assignment.model.sha256,
        shapes=assignment.adapter.shapes,
        owner=_owner(store, assignment.storage.prefix),
        members=sorted(assignment.members, key=lambda member: member.environment),
        refused=[Refusal(environment=e, reason=r) for e, r in sorted(refused.items())],
        made_with=made_with(),
    )


def _owner(store: ObjectStore, prefix: str) -> str | None:
    try:
        return manifest.sha256(store.get(keys.federation(prefix)))
    except NotFound:
        return None


def _write(
    store: ObjectStore, assignment: Assignment, place: Place, entry: AuditEntry
) -> str | None:
    """Put the entry, and return its digest; one that is there must tell of the same result.

    Whoever only finds a committed round again writes nothing. One that is older than the log gets
    no entry any more: those behind it would not follow it.
    """
    key = keys.audit_entry(assignment.storage.prefix, assignment.round)
    if place.is_taken:
        try:
            stored = store.get(key)
        except NotFound:
            return None
    else:
        whole = entry.model_copy(update={"sha256": entry.digest()})
        stored = put_once(store, key, manifest.canonical(whole.to_json()))
    if parse(AuditEntry, key, stored).result != entry.result:
        raise Corrupt(f"{key}: got an entry of another result, expected this round's")
    return manifest.sha256(stored)
