"""Claims: whether a silo is in one masked sum, decided by the first writer.

A silo claims its place before it sends anything. The aggregator writes a tombstone where a claim is
missing, by the same conditional write. If the claim was first, the silo counts; if the tombstone
was, it never sends. A late update beside a sum without it would reveal it as the difference.

Limits: the store must honour conditional writes, and hide no objects.
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
"""Most bytes of a claim that are read: a silo may write anything there."""


def put_claim(
    store: ObjectStore, prefix: str, environment: str, round_: int, epoch: int, own: Claim
) -> Claim:
    """Write a claim unless there is one; the one that counts.

    An invalid one was written by the silo, never by an aggregator: it is a claim of nothing.
    """
    key = bucket_keys.claim(prefix, environment, round_, epoch)
    try:
        store.put_if_absent(key, canonical(own.to_json()))
    except Precondition:
        return parse_claim(store.get_range(key, 0, MOST_BYTES + 1))
    return own


def parse_claim(data: bytes) -> Claim:
    """The claim; an empty one where it is invalid."""
    try:
        return Claim.model_validate_json(data[:MOST_BYTES])
    except ValidationError:
        return Claim()
