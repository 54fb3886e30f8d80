"""The audit log: one entry for each aggregation, each with the digest of the one before.

Only the aggregator writes it, once for each round; every client reads its head and repeats it in
its update's manifest, so that silos are witnesses of what was written.

Limits: whoever holds the bucket and the aggregator's key can withhold the newest entries, which no
silo has seen yet. Entries are not signed so far.
"""

import os
import platform
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from pydantic import ValidationError

from hansa import keys, manifest
from hansa.assignment import ENV_IMAGE, Assignment
from hansa.errors import HansaError
from hansa.logs import Level, Log
from hansa.manifest import AuditHead, MadeWith
from hansa.sentences import first_misfit
from hansa.store.base import ObjectStore
from hansa.tensorfile import TensorFile, short

LONGEST = 500
"""Characters of a version or an image at most; no real one is as long."""


class Differs(Exception):
    """What is stored is not what comes of the inputs."""


class CannotBe(Exception):
    """It cannot be computed again here; the sentence says why."""


class Quiet(Log):
    """What a program would tell of its work is compared here, and not told again."""

    def _write(self, level: Level, event: str, fields: dict[str, Any]) -> None:
        pass


def find_rounds(store: ObjectStore, prefix: str) -> list[int]:
    """Rounds that have an entry, in order."""
    root = keys.audit_root(prefix)
    rounds = {key: keys.number(root, key) for key in store.list(root)}
    return sorted(
        number
        for key, number in rounds.items()
        if number is not None and key == keys.audit_entry(prefix, number)
    )


def find_head(
    store: ObjectStore, prefix: str, before: int, rounds: list[int] | None = None
) -> AuditHead | None:
    """The newest entry of a round before this one; None where there is none yet."""
    known = find_rounds(store, prefix) if rounds is None else rounds
    earlier = [round_ for round_ in known if round_ < before]
    if not earlier:
        return None
    data = store.get(keys.audit_entry(prefix, earlier[-1]))
    return AuditHead(round=earlier[-1], sha256=manifest.sha256(data))


def made_with(**versions: str) -> MadeWith:
    """What computes here: these versions, Python's, the kind of machine and the image."""
    known = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "image": os.environ.get(ENV_IMAGE, ""),
        **versions,
    }
    return {name: value[:LONGEST] for name, value in sorted(known.items()) if value}


def rebuilt(document: dict[str, Any], fingerprint: str) -> Assignment:
    """An assignment from what was kept of it; only one with the same inputs will do."""
    try:
        assignment = Assignment.model_validate_json(manifest.canonical(document))
    except ValidationError as error:
        raise CannotBe(f"its settings are another version's: {first_misfit(error)}") from None
    except (ValueError, RecursionError):
        raise CannotBe("its settings cannot be written down again") from None
    if manifest.fingerprint(assignment.inputs()) != fingerprint:
        raise CannotBe("its settings are another version's, which means them otherwise")
    return assignment


def blame(what: str, then: MadeWith, here: MadeWith, same: tuple[str, ...]) -> NoReturn:
    """Differs, unless something else computed it then than computes here."""
    for name in same:
        if then.get(name) != here.get(name):
            made, now = short(then.get(name)), here.get(name)
            raise CannotBe(f"{what}; it was made with {name} {made}, here is {now}")
    raise Differs(what)


def first_difference(mine: Path, theirs: Path) -> str:
    """The first tensor that differs, and by how much: rounding is told from another result."""
    try:
        with TensorFile(mine) as made, TensorFile(theirs) as stored:
            for name in sorted({*made.layout, *stored.layout}):
                if made.shapes.get(name) != stored.shapes.get(name):
                    return f"tensor {short(name)} has another shape, or is in one of them only"
                ours, other = made.read(name), stored.read(name)
                if not np.array_equal(ours, other):
                    apart = np.abs(ours.astype(np.float64) - other)
                    size = f"{apart.max():.3g}, where values go up to {np.abs(ours).max():.3g}"
                    return f"tensor {short(name)} differs by up to {size}"
    except HansaError as error:
        return error.message
    return "its tensors are equal, its other bytes are not"
