"""Writing the audit log: what a round was computed from and what came of it, once and for all.

An entry follows from the assignment and from what is stored, and from no clock: an aggregator that
was killed before it wrote one writes the same when it is run again.
"""

from collections.abc import Mapping

import numpy as np

import hansa
from hansa import audit, keys, manifest
from hansa.assignment import Assignment
from hansa.errors import Corrupt, Denied, NotFound
from hansa.manifest import AuditEntry, AuditHead, GlobalManifest, MadeWith, Refusal
from hansa.store.base import ObjectStore, put_once
from hansa.store.documents import parse

CLIENT_SETTINGS = ("exploration", "experience", "training")
"""Settings that the gate compares with what an update says it was made with."""


def made_with() -> MadeWith:
    """What merges here."""
    return audit.made_with(numpy=np.__version__)


def find_head(store: ObjectStore, assignment: Assignment) -> AuditHead | None:
    """The entry that this round's follows; asked for first, since without it no round may end."""
    prefix = assignment.storage.prefix
    try:
        return audit.find_head(store, prefix, assignment.round)
    except Denied as error:
        raise Denied(
            f"{keys.audit_root(prefix)}: {error.message}",
            hint="the aggregator writes an audit log there: print its policy again with "
            "`hansa policy aggregator`",
        ) from None


def write_result(
    store: ObjectStore, assignment: Assignment, previous: AuditHead | None, data: bytes
) -> None:
    """The entry of a round whose global manifest is stored."""
    key = keys.global_folder(assignment.storage.prefix, assignment.round) + keys.MANIFEST
    made = parse(GlobalManifest, key, data)
    entry = _entry(store, assignment, previous, {r.environment: r.reason for r in made.refused})
    facts = {
        "program": made.program,
        "fingerprint": made.fingerprint,
        "inputs": made.inputs,
        "result": manifest.sha256(data),
        "made_with": made.made_with,
    }
    _write(store, assignment, entry.model_copy(update=facts))


def write_failure(
    store: ObjectStore,
    assignment: Assignment,
    previous: AuditHead | None,
    refused: Mapping[str, str],
) -> None:
    """The entry of a round in which too few updates passed the gate."""
    _write(store, assignment, _entry(store, assignment, previous, refused))


def _entry(
    store: ObjectStore,
    assignment: Assignment,
    previous: AuditHead | None,
    refused: Mapping[str, str],
) -> AuditEntry:
    inputs, settings = assignment.inputs(), assignment.settings.to_json()
    return AuditEntry(
        program=hansa.__version__,
        round=assignment.round,
        previous=previous,
        fingerprint=manifest.fingerprint(inputs),
        inputs=inputs,
        settings={name: settings[name] for name in CLIENT_SETTINGS},
        minimum=assignment.minimum,
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


def _write(store: ObjectStore, assignment: Assignment, entry: AuditEntry) -> None:
    """Put the entry; one that is there already must tell of the same result."""
    whole = entry.model_copy(update={"sha256": entry.digest()})
    key = keys.audit_entry(assignment.storage.prefix, assignment.round)
    stored = put_once(store, key, manifest.canonical(whole.to_json()))
    if parse(AuditEntry, key, stored).result != entry.result:
        raise Corrupt(f"{key}: got an entry of another result, expected this round's")
