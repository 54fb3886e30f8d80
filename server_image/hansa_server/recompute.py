"""Gating and merging a round again, to compare the result with what is stored.

It calls the aggregator's own functions, and stores nothing.
"""

import hashlib
from pathlib import Path

from hansa.adapter.tensor_file import clip_printable
from hansa.api import bucket_documents, bucket_keys
from hansa.api.assignment import Assignment
from hansa.api.bucket_documents import FederationDocument, GlobalManifest
from hansa.api.spec import S3
from hansa.core.stopwatch import Stopwatch
from hansa.store.audit_log import (
    AuditEntry,
    Mismatch,
    QuietLog,
    describe_first_difference,
    raise_mismatch,
    rebuilt,
)
from hansa.store.base import ObjectStore
from hansa.store.documents import parse
from hansa_server import audit
from hansa_server.folder import Workplace, open_workplace
from hansa_server.masked import make_members
from hansa_server.merge import compute_result_shapes
from hansa_server.round import ComputedMerge, compute, make_config
from hansa_server.stream import Members, TooFewMembers

SAME = ("numpy", "machine")
"""What must be the same for results to have equal bytes."""


def merge_again(
    store: ObjectStore, storage: S3, entry: AuditEntry, stored: GlobalManifest | None
) -> None:
    """Gate and merge a round again; Mismatch or NotRecomputable unless all is as stored."""
    assignment = rebuild_assignment(entry, storage)
    members = make_members(store, assignment, QuietLog("audit"))
    with open_workplace() as place:
        try:
            key = bucket_keys.federation(storage.prefix)
            owner = parse(FederationDocument, key, store.get(key)) if entry.owner else None
            made = compute(store, assignment, owner, members, place, Stopwatch())
        except TooFewMembers as error:
            made = None
            if stored:
                raise Mismatch(f"it was merged, but now {error.message}") from None
        _compare_refusals(entry, members)
        if made and stored:
            _compare_result(store, assignment, entry, stored, made, place)
        elif made:
            raise Mismatch("too few updates passed the gate, but now enough do")


def rebuild_assignment(entry: AuditEntry, storage: S3) -> Assignment:
    """The aggregator's assignment, as far as its result depends on it."""
    inputs = dict(entry.inputs)
    settings = {**entry.settings, "aggregation": inputs.pop("aggregation", {})}
    if "stepFactor" in inputs:
        settings["stepFactor"] = inputs.pop("stepFactor")
    document = {
        **inputs,
        "role": "aggregator",
        "federation": "audit",
        "settings": settings,
        "storage": storage.to_json(),
        "environments": [member.environment for member in entry.members],
        "members": [member.to_json() for member in entry.members],
        "minimum": entry.minimum,
    }
    assignment = rebuilt(document, entry.fingerprint)
    pinned = {
        "model": assignment.model.model_copy(update={"sha256": entry.base_model}),
        "adapter": assignment.adapter.model_copy(update={"shapes": entry.shapes}),
    }
    return assignment.model_copy(update=pinned)


def _compare_refusals(entry: AuditEntry, members: Members) -> None:
    then = {refusal.environment: refusal.reason for refusal in entry.refused}
    now: dict[str, str] = dict(members.refused)
    for name in sorted({*then, *now}):
        if then.get(name) != now.get(name):
            got, expected = now.get(name, "passed"), then.get(name, "passed")
            raise Mismatch(
                f"the gate says {got} of {name}'s update, the entry {clip_printable(expected)}"
            )


def _compare_result(
    store: ObjectStore,
    assignment: Assignment,
    entry: AuditEntry,
    stored: GlobalManifest,
    made: ComputedMerge,
    place: Workplace,
) -> None:
    """Numbers are compared first: another server step explains every tensor that differs."""
    for name, got, expected in (
        ("baseModel", made.base_model, stored.base_model),
        ("serverStep", made.task.step, stored.server_step),
        ("frozenRank", made.result.frozen_rank, stored.frozen_rank),
    ):
        if got != expected:
            _blame(entry, f"{name}: got {got}, the manifest says {expected}")
    prefix = assignment.storage.prefix
    folder = bucket_keys.global_folder(prefix, assignment.round)
    shapes = compute_result_shapes(made.task, made.result.frozen_rank)
    config = make_config(assignment, shapes, made.result)
    made_files = {
        bucket_keys.ADAPTER: _hash_file(place.result),
        bucket_keys.CONFIG: bucket_documents.sha256(config),
    }
    if made.result.has_state:
        made_files[bucket_keys.STATE] = _hash_file(place.next_state)
    if made_files.keys() != stored.files.keys():
        odd = min(made_files.keys() ^ stored.files.keys())
        raise Mismatch(
            f"{folder}{clip_printable(odd)}: a merge of these updates has no such file, "
            "or misses it"
        )
    for name, digest in made_files.items():
        if digest == stored.files[name].sha256:
            continue
        if name == bucket_keys.CONFIG:
            _blame(entry, f"{folder}{name} is another one")
        mine = place.result if name == bucket_keys.ADAPTER else place.next_state
        theirs = place.whole.with_name("stored.safetensors")
        store.download(folder + name, theirs, stored.files[name].size)
        _blame(entry, f"{folder}{name}: {describe_first_difference(mine, theirs)}")


def _blame(entry: AuditEntry, what: str) -> None:
    raise_mismatch(what, entry.made_with, audit.describe_versions(), SAME)


def _hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
