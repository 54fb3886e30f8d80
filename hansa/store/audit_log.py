"""The audit log: one entry for each aggregation, each with the digest of the one before.

Only the aggregator writes it, once for each round. Every client repeats the newest digest in its
update's manifest, so that silos are witnesses of what was written.

The aggregator's report carries an entry's digest to the federation's status. With remote silos,
every order that the coordinator signs names the newest entry, and so vouches for all before it.

Limits: an entry is vouched for by the next order, not when it is written. Without remote silos
nothing is signed, and anyone who can write the bucket can rewrite all but what the status knows.
"""

import os
import platform
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
from pydantic import Field, ValidationError

from hansa.adapter.tensor_file import TensorFile, clip_printable
from hansa.api import bucket_documents, bucket_keys
from hansa.api.assignment import ENV_IMAGE, Assignment
from hansa.api.bucket_documents import AuditHead, Count, MadeWith, Member, Refusal, Result, Sha256
from hansa.api.secure_aggregation import EPOCHS
from hansa.core.errors import HansaError
from hansa.core.logs import Level, Log
from hansa.store.base import ObjectStore
from hansa.validation.messages import describe_first_misfit

LONGEST = 500
"""Most characters of a version or an image; real ones are shorter."""


class AuditEntry(Result):
    """What the aggregator did in a round, for later audits; one link of a chain."""

    kind: Literal["audit"] = "audit"
    """What the document is."""
    round: Count
    """The round."""
    previous: AuditHead | None = None
    """The entry before; absent in the first one."""
    settings: dict[str, Any]
    """Settings of the round, by which clients explored and trained."""
    minimum: Count
    """Updates that had to pass the gate."""
    base_model: Sha256 | None = None
    """spec.model.sha256, where the spec had it: the gate then asks no majority."""
    shapes: Sha256 | None = None
    """spec.adapter.shapes, likewise."""
    owner: Sha256 | None = None
    """Digest of federation.json; absent where the first round of all has failed."""
    members: list[Member]
    """The members as they were frozen, with those that were refused, sorted by environment."""
    refused: list[Refusal] = Field(default_factory=list)
    """Members that the gate kept out."""
    result: Sha256 | None = None
    """Digest of the global manifest; absent where too few updates passed the gate."""
    made_with: MadeWith = Field(default_factory=dict)
    """What computed the result."""
    sha256: Sha256 | Literal[""] = ""
    """Digest of all other fields but the signature."""
    signature: Literal[""] = ""
    """Always empty: the aggregator holds no key, and signed orders name the entry."""

    @property
    def epoch(self) -> int:
        """How often silos dropped out of the round's sum, where its updates were masked."""
        masking = self.inputs.get("masking")
        epoch = masking.get("epoch") if isinstance(masking, dict) else 0
        return epoch if isinstance(epoch, int) and 0 <= epoch < EPOCHS else 0

    def digest(self) -> str:
        """What `sha256` must be."""
        rest = {k: v for k, v in self.to_json().items() if k not in ("sha256", "signature")}
        return bucket_documents.sha256(bucket_documents.canonical(rest))


class Mismatch(Exception):
    """The stored result differs from the recomputed one."""


class NotRecomputable(Exception):
    """The result cannot be recomputed here; the message says why."""


class QuietLog(Log):
    """Drops the events of work that is only repeated to compare it."""

    def _write(self, level: Level, event: str, fields: dict[str, Any]) -> None:
        pass


def find_rounds(store: ObjectStore, prefix: str) -> list[int]:
    """Rounds that have an entry, in order."""
    root = bucket_keys.audit_root(prefix)
    rounds = {key: bucket_keys.parse_round(root, key) for key in store.list(root)}
    return sorted(
        number
        for key, number in rounds.items()
        if number is not None and key == bucket_keys.audit_entry(prefix, number)
    )


def find_head(
    store: ObjectStore, prefix: str, before: int, rounds: list[int] | None = None
) -> AuditHead | None:
    """The newest entry of a round before this one; None where there is none yet."""
    known = find_rounds(store, prefix) if rounds is None else rounds
    earlier = [round_ for round_ in known if round_ < before]
    if not earlier:
        return None
    data = store.get(bucket_keys.audit_entry(prefix, earlier[-1]))
    return AuditHead(round=earlier[-1], sha256=bucket_documents.sha256(data))


def collect_versions(**versions: str) -> MadeWith:
    """What this program runs on: these versions, Python's, the kind of machine and the image."""
    known = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "image": os.environ.get(ENV_IMAGE, ""),
        **versions,
    }
    return {name: value[:LONGEST] for name, value in sorted(known.items()) if value}


def rebuilt(document: dict[str, Any], fingerprint: str) -> Assignment:
    """An assignment from its stored form; its inputs must have the same fingerprint."""
    try:
        assignment = Assignment.model_validate_json(bucket_documents.canonical(document))
    except ValidationError as error:
        raise NotRecomputable(
            f"its settings are another version's: {describe_first_misfit(error)}"
        ) from None
    except (ValueError, RecursionError):
        raise NotRecomputable("its settings cannot be written down again") from None
    if bucket_documents.fingerprint(assignment.inputs()) != fingerprint:
        raise NotRecomputable("its settings are another version's, which means them otherwise")
    return assignment


def raise_mismatch(what: str, then: MadeWith, here: MadeWith, same: tuple[str, ...]) -> NoReturn:
    """Raise Mismatch, or NotRecomputable where versions differ from those that computed it."""
    for name in same:
        if then.get(name) != here.get(name):
            made, now = clip_printable(then.get(name)), here.get(name)
            raise NotRecomputable(f"{what}; it was made with {name} {made}, here is {now}")
    raise Mismatch(what)


def describe_first_difference(mine: Path, theirs: Path) -> str:
    """The first tensor that differs, and by how much: to tell rounding from another result."""
    try:
        with TensorFile(mine) as made, TensorFile(theirs) as stored:
            for name in sorted({*made.layout, *stored.layout}):
                if made.shapes.get(name) != stored.shapes.get(name):
                    shown = clip_printable(name)
                    return f"tensor {shown} has another shape, or is in one of them only"
                ours, other = made.read(name), stored.read(name)
                if not np.array_equal(ours, other):
                    apart = np.abs(ours.astype(np.float64) - other)
                    size = f"{apart.max():.3g}, where values go up to {np.abs(ours).max():.3g}"
                    return f"tensor {clip_printable(name)} differs by up to {size}"
    except HansaError as error:
        return error.message
    return "its tensors are equal, its other bytes are not"
