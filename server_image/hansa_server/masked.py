"""Masked updates: the members of the sum, the sum itself, and the update that is computed from it.

The aggregator sees only the sum of the updates, and only with all of them in it: masks cancel only
then. A silo that has not claimed its place is excluded, and the others mask again. One that has
claimed it and is refused ends the round: a sum without it, beside its masked update, would reveal
the update.

Limits: the gate sees only the manifest, length and digest of a masked update. One member can ruin
the sum, and nobody can tell which.
"""

import math
import os
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO

import numpy as np

from hansa.adapter import lora, masking
from hansa.adapter.masking import WORD, Words
from hansa.adapter.tensor_file import Shapes, TensorFile, TensorWriter, arrange
from hansa.api.assignment import AggregatorReport, Assignment
from hansa.api.bucket_documents import Member, sha256
from hansa.api.secure_aggregation import EPOCHS, LEAST
from hansa.core.errors import MaskAgain, MaskedUpdateMissing, NotFound
from hansa.core.logs import Log
from hansa.store import claims
from hansa.store.base import ObjectStore
from hansa.store.claims import TOMBSTONE, Claim
from hansa_server import gate, scratch
from hansa_server.elementwise import BLOCK, ThreadBuffer, split_range
from hansa_server.gate import OfferedUpdate, UpdateRefused
from hansa_server.merge import WORKERS, Parts
from hansa_server.merge_input import Update
from hansa_server.stream import PARALLEL, Members

SUM = "sum.safetensors"
"""File name of the update that is computed from the sum."""


class SilosDropped(MaskAgain):
    """Silos dropped out; the report names those that are left."""

    def __init__(self, message: str, report: AggregatorReport) -> None:
        super().__init__(message)
        self.report = report


def make_members(store: ObjectStore, assignment: Assignment, log: Log) -> Members:
    """The members of an assignment, masked or not."""
    return (MaskedMembers if assignment.masking else Members)(store, assignment, log)


# -- who is in the sum ----------------------------------------------------------------------------


def settle_members(store: ObjectStore, assignment: Assignment) -> Assignment:
    """The assignment with the silos as its members that claimed their places in the sum.

    The others are excluded from this epoch: Left, where the rest can mask again. A silo that has
    claimed its place and whose update is missing is waited for: MaskedUpdateMissing, a retry.
    """
    if assignment.masking is None:
        return assignment
    standing = _claim_places(store, assignment)
    inside = [name for name, claim in standing.items() if not claim.tombstone]
    known = {m.environment: m for m in assignment.members if m.environment in inside}
    if len(inside) == len(standing):
        known |= {n: _read_late_member(store, assignment, n) for n in inside if n not in known}
    elif not _explain_no_retry(assignment, inside):
        raise _make_dropped_error(assignment, inside)
    members = [known[name] for name in sorted(known)]
    return assignment.model_copy(update={"members": members})


def _claim_places(store: ObjectStore, assignment: Assignment) -> dict[str, Claim]:
    _, masks = masking.require_masking(assignment)
    prefix, round_ = assignment.storage.prefix, assignment.round

    def claim(name: str) -> Claim:
        return claims.put_claim(store, prefix, name, round_, masks.epoch, TOMBSTONE)

    with ThreadPoolExecutor(PARALLEL) as pool:
        names = sorted(masks.peers)
        return dict(zip(names, pool.map(claim, names), strict=True))


def _explain_no_retry(assignment: Assignment, inside: Collection[str]) -> str:
    """Why the remaining silos do not mask again; empty: they do."""
    secure, masks = masking.require_masking(assignment)
    if secure.on_dropout == "fail":
        return "aggregation.secure.onDropout is fail"
    if masks.epoch + 1 == EPOCHS:
        return f"the others have masked {EPOCHS} times"
    left = sum(name in inside for name in assignment.environments)
    least = max(LEAST, assignment.minimum)
    return f"{left} are left, expected {least} or more" if left < least else ""


def _make_dropped_error(assignment: Assignment, inside: Collection[str]) -> SilosDropped:
    """The error that lets silos mask again that took part and are still in the federation."""
    _, masks = masking.require_masking(assignment)
    out = sorted(masks.peers.keys() - set(inside))
    left = [index for index, name in enumerate(assignment.environments) if name in inside]
    report = AggregatorReport(
        round=assignment.round, manifest="", adapter="", bytes=0, members=[], remaining=left
    )
    return SilosDropped(
        f"without {', '.join(out)}, who dropped out, {len(left)} silos mask again", report
    )


def _read_late_member(store: ObjectStore, assignment: Assignment, name: str) -> Member:
    """A silo that claimed its place after the members were frozen."""
    key = gate.get_manifest_key(assignment, name)
    try:
        data = store.get_range(key, 0, gate.MAX_MANIFEST + 1)
    except NotFound:
        raise MaskedUpdateMissing(
            f"{key}: {name} has claimed its place in the sum, and its update is not there",
            hint="it is waited for: a sum without it beside its update would give that away",
        ) from None
    return Member(environment=name, manifest=sha256(data))


# -- the sum --------------------------------------------------------------------------------------


class MaskedMembers(Members):
    """Members whose masked updates are added up; a refused one ends the round."""

    def __init__(self, store: ObjectStore, assignment: Assignment, log: Log) -> None:
        super().__init__(store, assignment, log)
        self._secure, self._masks = masking.require_masking(assignment)
        self._sum: Update | None = None

    def read_manifests(self) -> None:
        """Read each member's manifest; no silo of the sum may be missing."""
        named = {member.environment for member in self._assignment.members}
        missing = sorted(self._masks.peers.keys() - named)
        if missing:
            why = _explain_no_retry(self._assignment, named)
            raise self._make_too_few_error(f"{', '.join(missing)}: not in the sum, and {why}")
        super().read_manifests()

    def require_enough(self) -> None:
        """Fail unless all members passed, and enough of them for a sum."""
        if self.refused:
            named = ", ".join(f"{name} ({reason})" for name, reason in sorted(self.refused.items()))
            raise self._make_too_few_error(
                f"refused: {named}; a masked sum needs the updates of all"
            )
        if len(self.offers) < max(LEAST, self._assignment.minimum):
            super().require_enough()
            raise self._make_too_few_error(
                f"{len(self.offers)} updates, expected {LEAST} or more in a sum"
            )

    def _parse_shapes(self, head: bytes, offer: OfferedUpdate) -> Shapes:
        """A masked update begins with the header of the adapter."""
        return lora.parse_shapes(head, None)

    def fetch(self, shapes: Shapes | None, prepare: Callable[[], Parts], folder: Path) -> Parts:
        """Copy all masked updates, add them up, and write the mean update."""
        with ExitStack() as files:
            with ThreadPoolExecutor(PARALLEL) as pool:
                ready = pool.submit(prepare)
                known = shapes or ready.result()[0].shapes
                head, _ = arrange(known)
                count = masking.count_values(known, masking.list_trained(known, self._half))
                size = len(head) + count * WORD.itemsize

                def work(name: str) -> BinaryIO:
                    offer, path = self.offers[name], folder / f"{name}.masked"
                    gate.check_size(offer.entry, size, size)
                    scratch.fetch(self._store, self._get_adapter_key(offer), offer.entry, path)
                    return _open_body(path, head)

                copied = self._map_members(pool, self.offers, work)
                for file in copied.values():
                    files.callback(file.close)
            parts = ready.result()
            self.require_enough()
            if parts[0].shapes != known:
                raise self._make_too_few_error(
                    "shapes of the adapter: the start's head tells others"
                )
            self._sum = self._add_up(parts[0], [*copied.values()], len(head), folder / SUM)
        return parts

    def list_updates(self) -> list[Update]:
        """The mean update, as the only one."""
        return [self._sum] if self._sum else []

    def _add_up(self, start: TensorFile, bodies: list[BinaryIO], origin: int, path: Path) -> Update:
        """Write start plus mean change to a file; fail where clipNorm does not allow its norm."""
        marks = [o.manifest.masked for o in self.offers.values() if o.manifest.masked]
        weight, bits = sum(mark.weight for mark in marks), marks[0].bits
        total, names = _ModularSum(bodies), masking.list_trained(start.shapes, self._half)
        sizes = (math.prod(start.shapes[name]) * WORD.itemsize for name in names)
        begins = dict(zip(names, accumulate(sizes, initial=origin), strict=False))

        def make(name: str) -> float:
            if name not in begins:
                writer.write(name, start.read(name))
                return 0.0
            made, square = np.empty(math.prod(start.layout[name].shape), np.float32), 0.0
            for begin, end in split_range(made.size, BLOCK):
                at = begins[name] + begin * WORD.itemsize
                change = masking.dequantize(total(at, end - begin), weight, bits)
                square += float(np.dot(change, change))
                made[begin:end] = change + start.values(name, begin, end)
            writer.write(name, made.reshape(start.layout[name].shape))
            return square

        with TensorWriter(path, start.shapes) as writer, ThreadPoolExecutor(WORKERS) as pool:
            norm = math.sqrt(sum(pool.map(make, sorted(start.layout))))
        count = masking.count_values(start.shapes, names)
        most = masking.max_mean_norm(self._secure.clip_norm, weight, bits, len(bodies), count)
        if norm > most:
            raise self._make_too_few_error(
                f"masked sum: its mean has a norm of {norm:.6g}, expected at most {most:.6g}: a "
                "silo sent more than aggregation.secure.clipNorm allows, or other masks"
            )
        file = lora.open_file(path)
        path.unlink()
        self._files["sum"] = file
        return Update(environment="sum", file=file, norm=norm)


def _open_body(path: Path, head: bytes) -> BinaryIO:
    """Open a masked update after checking that its header is that of the federation's shapes."""
    file = path.open("rb", buffering=0)
    path.unlink()  # an open file stays readable, and a killed process leaves nothing behind
    if os.pread(file.fileno(), len(head), 0) != head:
        file.close()
        raise UpdateRefused("shape", "its head is not that of the federation's adapter")
    return file


class _ModularSum:
    """Sums of masked updates, modulo 2^32."""

    def __init__(self, bodies: list[BinaryIO]) -> None:
        self._bodies = bodies
        self._room, self._sum = ThreadBuffer(np.uint32), ThreadBuffer(np.uint32)

    def __call__(self, offset: int, count: int) -> Words:
        """The sum of a range; the same thread's next call overwrites it."""
        total, room = self._sum.take(count), self._room.take(count)
        total[:] = 0
        for body in self._bodies:
            if os.preadv(body.fileno(), [room.data.cast("B")], offset) != room.nbytes:
                raise OSError(f"got fewer than {room.nbytes} bytes of a file at {offset}")
            total += room
        return total
