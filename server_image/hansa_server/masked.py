"""Masked updates: who is in the sum, the sum itself, and the one update that it stands for.

Of the members only their sum is ever seen, and only when all of them are in it: one that is missing
or refused leaves the masks of the others on. Who has not claimed its place is shut out, and the
others mask again; who has, and was then refused, ends the round, for a sum without it beside its
body would give it away.

Limits: what the gate can see of a masked update is its manifest, its length and its digest. One
member can ruin the sum, and nobody can tell which.
"""

import math
import os
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
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
from hansa_server.elementwise import BLOCK, ThreadBuffer, blocks
from hansa_server.gate import OfferedUpdate, UpdateRefused
from hansa_server.merge import WORKERS, Parts
from hansa_server.merge_input import Update
from hansa_server.stream import PARALLEL, Members

SUM = "sum.safetensors"
"""Name of the one update that all members' bodies stand for."""


class Left(MaskAgain):
    """Somebody dropped out; carries the report that tells the executor who is left."""

    def __init__(self, message: str, report: AggregatorReport) -> None:
        super().__init__(message)
        self.report = report


def members_of(store: ObjectStore, assignment: Assignment, log: Log) -> Members:
    """The members of an assignment, masked or not."""
    return (MaskedMembers if assignment.masking else Members)(store, assignment, log)


# -- who is in the sum ----------------------------------------------------------------------------


def settled(store: ObjectStore, assignment: Assignment) -> Assignment:
    """The assignment with those as its members who claimed their places in the sum.

    Whoever has not is shut out of this epoch for good: Left, where the others can mask again. One
    that has, and whose update is not there, is waited for: BodyAway, which is worth another try.
    """
    if assignment.masking is None:
        return assignment
    standing = _claims(store, assignment)
    inside = [name for name, claim in standing.items() if not claim.tombstone]
    known = {m.environment: m for m in assignment.members if m.environment in inside}
    if len(inside) == len(standing):
        known |= {n: _late(store, assignment, n) for n in inside if n not in known}
    elif not _why_not_again(assignment, inside):
        raise _left(assignment, inside)
    members = [known[name] for name in sorted(known)]
    return assignment.model_copy(update={"members": members})


def _claims(store: ObjectStore, assignment: Assignment) -> dict[str, Claim]:
    _, masks = masking.settings_of(assignment)
    prefix, round_ = assignment.storage.prefix, assignment.round

    def claim(name: str) -> Claim:
        return claims.put(store, prefix, name, round_, masks.epoch, TOMBSTONE)

    with ThreadPoolExecutor(PARALLEL) as pool:
        names = sorted(masks.peers)
        return dict(zip(names, pool.map(claim, names), strict=True))


def _why_not_again(assignment: Assignment, inside: Collection[str]) -> str:
    """Why those who are left do not mask again; empty: they do."""
    secure, masks = masking.settings_of(assignment)
    if secure.on_dropout == "fail":
        return "aggregation.secure.onDropout is fail"
    if masks.epoch + 1 == EPOCHS:
        return f"the others have masked {EPOCHS} times"
    left = sum(name in inside for name in assignment.environments)
    least = max(LEAST, assignment.minimum)
    return f"{left} are left, expected {least} or more" if left < least else ""


def _left(assignment: Assignment, inside: Collection[str]) -> Left:
    """Who masks again: silos that took part and are still in the federation."""
    _, masks = masking.settings_of(assignment)
    out = sorted(masks.peers.keys() - set(inside))
    left = [index for index, name in enumerate(assignment.environments) if name in inside]
    report = AggregatorReport(
        round=assignment.round, manifest="", adapter="", bytes=0, members=[], remaining=left
    )
    return Left(f"without {', '.join(out)}, who dropped out, {len(left)} silos mask again", report)


def _late(store: ObjectStore, assignment: Assignment, name: str) -> Member:
    """A silo that claimed its place and was not seen when the members were frozen."""
    key = gate.manifest_key(assignment, name)
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
    """Members whose updates are one sum; any that is refused ends the round."""

    def __init__(self, store: ObjectStore, assignment: Assignment, log: Log) -> None:
        super().__init__(store, assignment, log)
        self._secure, self._masks = masking.settings_of(assignment)
        self._sum: Update | None = None

    def read_manifests(self) -> None:
        """Learn what each member offers; without one of the silos there is no sum."""
        named = {member.environment for member in self._assignment.members}
        missing = sorted(self._masks.peers.keys() - named)
        if missing:
            why = _why_not_again(self._assignment, named)
            raise self._too_few(f"{', '.join(missing)}: not in the sum, and {why}")
        super().read_manifests()

    def require_enough(self) -> None:
        """All, and as many as every sum must have."""
        if self.refused:
            named = ", ".join(f"{name} ({reason})" for name, reason in sorted(self.refused.items()))
            raise self._too_few(f"refused: {named}; a masked sum needs the updates of all")
        if len(self.offers) < max(LEAST, self._assignment.minimum):
            super().require_enough()
            raise self._too_few(f"{len(self.offers)} updates, expected {LEAST} or more in a sum")

    def _shapes(self, head: bytes, offer: OfferedUpdate) -> Shapes:
        """A body begins with the head that the adapter itself would have."""
        return lora.head_shapes(head)

    def fetch(self, shapes: Shapes | None, prepare: Callable[[], Parts], folder: Path) -> Parts:
        """Copy all bodies, add them up, and write the one update that their sum stands for."""
        with ExitStack() as files:
            with ThreadPoolExecutor(PARALLEL) as pool:
                ready = pool.submit(prepare)
                known = shapes or ready.result()[0].shapes
                head, _ = arrange(known)
                count = masking.count(known, masking.trained(known, self._half))
                size = len(head) + count * WORD.itemsize

                def work(name: str) -> BinaryIO:
                    offer, path = self.offers[name], folder / f"{name}.masked"
                    gate.check_size(offer.entry, size, size)
                    scratch.fetch(self._store, self._adapter_key(offer), offer.entry, path)
                    return _opened(path, head)

                copied = self._each(pool, self.offers, work)
                for file in copied.values():
                    files.callback(file.close)
            parts = ready.result()
            self.require_enough()
            if parts[0].shapes != known:
                raise self._too_few("shapes of the adapter: the start's head tells others")
            self._sum = self._added(parts[0], [*copied.values()], len(head), folder / SUM)
        return parts

    def updates(self) -> list[Update]:
        """The one that all members' stand for."""
        return [self._sum] if self._sum else []

    def _added(self, start: TensorFile, bodies: list[BinaryIO], origin: int, path: Path) -> Update:
        """Start and mean change, in a file; refused as a whole where it moved too far.

        No member that kept to clipNorm can do that, alone or with others.
        """
        marks = [o.manifest.masked for o in self.offers.values() if o.manifest.masked]
        weight, bits = sum(mark.weight for mark in marks), marks[0].bits
        total, names = _Total(bodies), masking.trained(start.shapes, self._half)
        begins = dict(_begins(start.shapes, names, origin))

        def make(name: str) -> float:
            if name not in begins:
                writer.write(name, start.read(name))
                return 0.0
            made, square = np.empty(math.prod(start.layout[name].shape), np.float32), 0.0
            for begin, end in blocks(made.size, BLOCK):
                at = begins[name] + begin * WORD.itemsize
                change = masking.decode(total(at, end - begin), weight, bits)
                square += float(np.dot(change, change))
                made[begin:end] = change + start.values(name, begin, end)
            writer.write(name, made.reshape(start.layout[name].shape))
            return square

        with TensorWriter(path, start.shapes) as writer, ThreadPoolExecutor(WORKERS) as pool:
            norm = math.sqrt(sum(pool.map(make, sorted(start.layout))))
        count = masking.count(start.shapes, names)
        most = masking.most_norm(self._secure.clip_norm, weight, bits, len(bodies), count)
        if norm > most:
            raise self._too_few(
                f"masked sum: its mean has a norm of {norm:.6g}, expected at most {most:.6g}: a "
                "silo sent more than aggregation.secure.clipNorm allows, or other masks"
            )
        file = lora.open_file(path)
        path.unlink()
        self._files["sum"] = file
        return Update(environment="sum", file=file, norm=norm)


def _begins(shapes: Shapes, names: list[str], origin: int) -> Iterator[tuple[str, int]]:
    """Where each tensor's numbers begin in a body."""
    for name in names:
        yield name, origin
        origin += math.prod(shapes[name]) * WORD.itemsize


def _opened(path: Path, head: bytes) -> BinaryIO:
    """A body of the right length, whose head is that of the federation's shapes."""
    file = path.open("rb", buffering=0)
    path.unlink()  # an open file stays readable, and a kill leaves nothing behind
    if os.pread(file.fileno(), len(head), 0) != head:
        file.close()
        raise UpdateRefused("shape", "its head is not that of the federation's adapter")
    return file


class _Total:
    """Sums of as many numbers of each body, modulo 2^32."""

    def __init__(self, bodies: list[BinaryIO]) -> None:
        self._bodies = bodies
        self._room, self._sum = ThreadBuffer(np.uint32), ThreadBuffer(np.uint32)

    def __call__(self, offset: int, count: int) -> Words:
        """Until the same thread asks again."""
        total, room = self._sum.take(count), self._room.take(count)
        total[:] = 0
        for body in self._bodies:
            if os.preadv(body.fileno(), [room.data.cast("B")], offset) != room.nbytes:
                raise OSError(f"got fewer than {room.nbytes} bytes of a file at {offset}")
            total += room
        return total
