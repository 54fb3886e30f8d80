"""Claims: whether a silo is in one masked sum, decided by whoever writes first.

A silo claims its place before it sends anything. The aggregator puts a tombstone where a claim is
missing, by the same conditional write: either the claim was first, and the silo counts, or the
tombstone was, and the silo never sends. So no body can come late, beside a sum without it, and give
its silo's update away as the difference.

Limits: it holds as long as the store writes once, and nobody hides what is in it.
"""

from typing import Literal

from pydantic import ValidationError

from hansa.api import bucket_keys
from hansa.api.bucket_documents import canonical
from hansa.core.errors import Precondition
from hansa.core.model import Model, Sha256
from hansa.store.base import ObjectStore


class Claim(Model):
    """What is under the key of a claim."""

    sha256: Sha256 | None = None
    """Digest of the body that the silo sends; absent in a tombstone."""
    tombstone: Literal[True] | None = None
    """Its presence says that the silo was left out of the sum: it sends nothing."""


TOMBSTONE = Claim(tombstone=True)
MOST_BYTES = 4096
"""Of a claim that are read: a silo may write anything there."""


def put(
    store: ObjectStore, prefix: str, environment: str, round_: int, epoch: int, own: Claim
) -> Claim:
    """Write a claim unless there is one; the one that stands.

    What cannot be read is a silo's own, for no aggregator writes such: a claim of nothing.
    """
    key = bucket_keys.claim(prefix, environment, round_, epoch)
    try:
        store.put_if_absent(key, canonical(own.to_json()))
    except Precondition:
        return read(store.get_range(key, 0, MOST_BYTES + 1))
    return own


def read(data: bytes) -> Claim:
    """What a claim says; of one that cannot be read, nothing."""
    try:
        return Claim.model_validate_json(data[:MOST_BYTES])
    except ValidationError:
        return Claim()
