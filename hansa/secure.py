"""Secure aggregation as data: masks that cancel in the sum, so that nobody reads one silo's update.

Each pair of silos of a round shares a mask; one adds it and the other takes it away. Only the sum
over all of them is readable. Who drops out is left out by masking again without it: an epoch.
"""

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from hansa.base import Model, Sha256

if TYPE_CHECKING:
    from hansa.spec import FederationSpec

ENV_MASKING_KEY = "HANSA_MASKING_KEY"
"""File of the private key that a silo's masks follow from."""
EPOCHS = 3
"""How often the silos of one round mask at most: once, and again after somebody dropped out."""
LEAST = 3
"""Silos in a sum at least: of a sum of two, each of them knows the other's part."""
STRATEGIES = (
    *("mean", "weighted-mean", "ffa", "rolora"),
    *("fedavgm", "fedadagrad", "fedadam", "fedyogi"),
)
"""Strategies that need no more than the sum."""
UNREAD = ("max_norm_ratio", "max_weight_ratio", "max_update_norm")
"""Settings that look at one update alone; nobody may set them."""

MaskingKey = Annotated[str, Field(pattern=r"^x25519:[A-Za-z0-9_-]{43}$", max_length=60)]
"""The public half of a silo's masking key."""
Epoch = Annotated[int, Field(ge=0, lt=EPOCHS)]
"""How often silos dropped out of a round before."""


class Secure(Model):
    """Secure aggregation: only the sum of the updates is ever readable."""

    clip_norm: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    """Norm that each silo scales its change down to before masking, where it is longer: nobody
    else can bound what nobody sees."""
    on_dropout: Literal["remask", "fail"] = "remask"
    """When a silo is missing: `remask` goes on without it, the others masking again; `fail` ends
    the round, so that not even a server that hides a silo's answer gets a second sum."""


class Masking(Model):
    """Who masks against whom in a round."""

    epoch: Epoch = 0
    """How often silos dropped out of the round so far."""
    peers: dict[str, MaskingKey]
    """Public keys of all that the sum is over, by environment, the silo's own among them."""


class Masked(Model):
    """What a manifest says of a masked update."""

    epoch: Epoch
    """Epoch whose masks are on it."""
    peers: Sha256
    """Digest of the peers and their keys."""
    bits: Annotated[int, Field(ge=0, le=30)]
    """Bits behind the point of its whole numbers."""
    weight: Annotated[int, Field(ge=1, le=1024)]
    """How much it counts, in 1/1024."""


def check(spec: "FederationSpec") -> None:
    """Refuse what cannot be done with sums alone, or would give an update away beside its masks."""
    if spec.aggregation.secure is None:
        return
    _check_strategy(spec)
    _check_members(spec)
    _check_keys(spec)
    _check_places(spec)


def _check_strategy(spec: "FederationSpec") -> None:
    aggregation = spec.aggregation
    if aggregation.strategy not in STRATEGIES:
        raise ValueError(
            f"aggregation.strategy: got {aggregation.strategy}, expected one of "
            f"{', '.join(STRATEGIES)} with aggregation.secure: the others look at each update"
        )
    if aggregation.server_step == "auto":
        raise ValueError(
            "aggregation.serverStep: got auto, expected a number with aggregation.secure: auto "
            "compares the updates with one another"
        )
    if aggregation.seal_to:
        raise ValueError(
            "aggregation.sealTo: got a key, expected none with aggregation.secure: masked updates "
            "are unreadable already, for the aggregator, too"
        )
    for name in UNREAD:
        came, field = getattr(aggregation, name), type(aggregation).model_fields[name]
        if came != field.default:
            raise ValueError(
                f"aggregation.{field.alias}: got {came:g}, expected none given with "
                "aggregation.secure: nobody sees one update alone; secure.clipNorm bounds them all"
            )


def _check_members(spec: "FederationSpec") -> None:
    if len(spec.environments) < LEAST:
        raise ValueError(
            f"environments: got {len(spec.environments)}, expected at least {LEAST} with "
            "aggregation.secure: of a sum of two, each knows the other's part"
        )
    minimum = spec.participation.minimum_updates
    if minimum is not None and minimum < LEAST:
        raise ValueError(
            f"participation.minimumUpdates: got {minimum}, expected at least {LEAST} with "
            "aggregation.secure: of a sum of two, each knows the other's part"
        )


def _check_keys(spec: "FederationSpec") -> None:
    first: dict[str, str] = {}
    for index, environment in enumerate(spec.environments):
        where, key = f"environments[{index}].maskingKey", environment.masking_key
        if key is None:
            raise ValueError(
                f"{where}: got nothing, expected the silo's public key with aggregation.secure, "
                "as `hansa keys show FILE` prints it"
            )
        if key in first:
            raise ValueError(
                f"{where}: got the key of {first[key]}, expected another: every silo has its own"
            )
        first[key] = environment.name


def _check_places(spec: "FederationSpec") -> None:
    if spec.storage is None:
        raise ValueError(
            "storage: got nothing, expected a store with aggregation.secure: the one that `hansa "
            "run` starts would hold the updates of all silos unmasked, too"
        )
    shared = (spec.storage.s3.endpoint, spec.storage.s3.bucket)
    for index, environment in enumerate(spec.environments):
        if environment.member:
            continue  # it says so to its own clients
        where, private = f"environments[{index}].experienceStorage", environment.experience_storage
        if private is None:
            raise ValueError(
                f"{where}: got nothing, expected a store of the silo's own with "
                "aggregation.secure: its update lies there unmasked"
            )
        if (private.s3.endpoint, private.s3.bucket) == shared:
            raise ValueError(
                f"{where}.s3.bucket: got {private.s3.bucket}, where updates are exchanged, "
                "expected another bucket or endpoint with aggregation.secure: its update lies "
                "there unmasked"
            )
