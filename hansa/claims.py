"""Claims: whether a silo is in one masked sum, decided by whoever writes first.

A silo claims its place before it sends anything. The aggregator puts a tombstone where a claim is
missing, by the same conditional write: either the claim was first, and the silo counts, or the
tombstone was, and the silo never sends. So no body can come late, beside a sum without it, and give
its silo's update away as the difference.

Limits: it holds as long as the store writes once, and nobody hides what is in it.
"""

from typing import Literal

from pydantic import ValidationError

from hansa import keys
from hansa.base import Model, Sha256
from hansa.manifest import canonical
from hansa.store.base import ObjectStore, put_once


class Claim(Model):
    """What is under the key of a claim."""

    sha256: Sha256 | None = None
    """Digest of the body that the silo sends; absent in a tombstone."""
    tombstone: Literal[True] | None = None
    """Its presence says that the silo was left out of the sum: it sends nothing."""


TOMBSTONE = Claim(tombstone=True)


def put(
    store: ObjectStore, prefix: str, environment: str, round_: int, epoch: int, own: Claim
) -> Claim:
    """Write a claim unless there is one; the one that stands.

    What cannot be read is a silo's own, for no aggregator writes such: a claim of nothing.
    """
    key = keys.claim(prefix, environment, round_, epoch)
    try:
        return Claim.model_validate_json(put_once(store, key, canonical(own.to_json())))
    except ValidationError:
        return Claim()
