"""Secure aggregation as data: masks that cancel in the sum, so that nobody reads one silo's update.

Each pair of silos of a round shares a mask; one adds it and the other takes it away. Only the sum
over all of them is readable. Who drops out is left out by masking again without it: an epoch.
"""

from typing import Annotated, Literal

from pydantic import Field

from hansa.core.model import Model, Sha256

ENV_MASKING_KEY = "HANSA_MASKING_KEY"
"""File of the private key that a silo's masks follow from."""
EPOCHS = 3
"""How often the silos of one round mask at most: once, and again after somebody dropped out."""
LEAST = 3
"""Silos in a sum at least: of a sum of two, each of them knows the other's part."""
UNREAD = ("max_norm_ratio", "max_weight_ratio", "max_update_norm")
"""Settings that look at one update alone; nobody may set them."""

MaskingKey = Annotated[str, Field(pattern=r"^x25519:[A-Za-z0-9_-]{43}$", max_length=60)]
"""The public half of a silo's masking key."""
Epoch = Annotated[int, Field(ge=0, lt=EPOCHS)]
"""How often silos dropped out of a round before."""


class SecureAggregation(Model):
    """Secure aggregation: only the sum of the updates is ever readable."""

    clip_norm: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    """Norm that each silo scales its change down to before masking, where it is longer: nobody
    else can bound what nobody sees."""
    on_dropout: Literal["remask", "fail"] = "remask"
    """When a silo is missing: `remask` continues without it, the others masking again; `fail` ends
    the round, so that not even a server that hides a silo's answer gets a second sum."""


class Masking(Model):
    """Who masks against whom in a round."""

    epoch: Epoch = 0
    """How often silos dropped out of the round so far."""
    peers: dict[str, MaskingKey]
    """Public keys of all that the sum is over, by environment, the silo's own among them."""


class MaskedUpdate(Model):
    """What a manifest says of a masked update."""

    epoch: Epoch
    """Epoch whose masks are on it."""
    peers: Sha256
    """Digest of the peers and their keys."""
    bits: Annotated[int, Field(ge=0, le=30)]
    """Bits behind the point of its whole numbers."""
    weight: Annotated[int, Field(ge=1, le=1024)]
    """How much it counts, in 1/1024."""
