"""Masks that cancel in a sum: of each pair of silos, one adds their mask, one subtracts it.

A silo's change is quantized to integers of 32 bits, and the mask streams of all its pairs are added
modulo 2^32. What it sends looks like noise; the sum over all silos is the exact sum of their
integers, in any order.

Limits: all silos but two, with the reader of the sum, learn the sum of these two. A silo's private
key reveals all masks it ever made. Two changes under the same masks reveal their difference, so a
run that starts again with emptied stores needs new keys. Nobody can tell which silo sent an invalid
update.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hansa.adapter import lora
from hansa.adapter.tensor_file import Shapes, arrange
from hansa.api.assignment import Assignment
from hansa.api.bucket_documents import Counts, canonical, sha256
from hansa.api.ownership import Owner, get_alias, list_fields
from hansa.api.secure_aggregation import MaskedUpdate, Masking, SecureAggregation
from hansa.api.status import RoundSettings
from hansa.api.strategies import Half, WeightedMeanOptions
from hansa.core.errors import InputError, PermanentError
from hansa.crypto.keys import KEY_BYTES, parse_public_key
from hansa.crypto.sealing import OpeningKey

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import CipherContext

Words = NDArray[np.uint32]
"""Numbers modulo 2^32."""

UNIT = 1024
"""Weights are whole numbers of this part of 1."""
WORD = np.dtype("<u4")
CHUNK = 2**16
"""Values that are masked at a time, so that they and their mask stay in a core's cache."""
_VERSION = "hansa/mask/1"
_ROUNDING = 1e-6


def count_fraction_bits(silos: int, clip: float) -> int:
    """Fraction bits with which no sum of that many changes of that norm exceeds 32 bits."""
    fraction, exponent = math.frexp(clip)
    whole = exponent - 1 if fraction == 0.5 else exponent  # the logarithm, rounded up
    return 30 - (silos - 1).bit_length() - max(0, whole)


def clip_factor(norm: float, clip: float) -> float:
    """Factor that scales a change of that norm down to the clip norm."""
    return min(1.0, clip / norm) if norm else 1.0


def require_masking(assignment: Assignment) -> tuple[SecureAggregation, Masking]:
    """Both settings of masking; a permanent error where one is missing."""
    secure, masking = assignment.settings.aggregation.secure, assignment.masking
    if secure is None or masking is None:
        field = "masking" if masking is None else "settings.aggregation.secure"
        raise PermanentError(f"{field}: got nothing, expected it where updates are masked")
    return secure, masking


def choose_weight(settings: RoundSettings, counts: Counts) -> int:
    """A silo's weight in units. Weights are public, so with privacy all silos have the same one."""
    aggregation = settings.aggregation
    if aggregation.strategy != "weighted-mean" or settings.privacy:
        return UNIT
    options = aggregation.read(WeightedMeanOptions)
    return max(1, min(UNIT, options.claim(counts.kept, counts.succeeded)))


def describe_masked(assignment: Assignment, counts: Counts) -> MaskedUpdate:
    """What the manifest of a masked update must say of it."""
    secure, masking = require_masking(assignment)
    return MaskedUpdate(
        epoch=masking.epoch,
        peers=digest_peers(masking.peers),
        bits=count_fraction_bits(len(masking.peers), secure.clip_norm),
        weight=choose_weight(assignment.settings, counts),
    )


def digest_peers(peers: Mapping[str, str]) -> str:
    """Digest of the silos of a sum and their keys."""
    return sha256(canonical(dict(peers)))


def pair_keys(
    own: OpeningKey, name: str, peers: Mapping[str, str], context: Mapping[str, Any]
) -> dict[str, bytes]:
    """The key that a silo shares with each other one, for one sum of what `context` names alone."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    shared = {"version": _VERSION, "peers": digest_peers(peers), **context}
    made = {}
    for other in sorted(peers.keys() - {name}):
        try:
            public = X25519PublicKey.from_public_bytes(parse_public_key("x25519", peers[other]))
            secret = own.private.exchange(public)
        except ValueError:  # a point with which every secret is the same
            raise InputError(
                f"masking key of {other}: got {peers[other]}, which hides nothing"
            ) from None
        info = canonical({**shared, "pair": sorted([name, other])})
        made[other] = HKDF(SHA256(), length=KEY_BYTES, salt=None, info=info).derive(secret)
    return made


class Masks:
    """All masks of one silo, in the order of its values."""

    def __init__(self, name: str, keys: Mapping[str, bytes]) -> None:
        """`keys` are those it shares with each other silo, as `pair_keys` makes them."""
        self._streams = [(name < other, _stream(keys[other])) for other in sorted(keys)]
        self._zeros = bytes(CHUNK * WORD.itemsize)
        self._room = np.empty(CHUNK, WORD)

    def apply(self, values: Words) -> None:
        """Mask the next values, in place."""
        for begin in range(0, len(values), CHUNK):
            piece = values[begin : begin + CHUNK]
            size, mask = piece.nbytes, self._room[: len(piece)]
            for adds, stream in self._streams:
                stream.update_into(memoryview(self._zeros)[:size], mask.data.cast("B"))
                if adds:
                    np.add(piece, mask, out=piece)
                else:
                    np.subtract(piece, mask, out=piece)


def _stream(key: bytes) -> "CipherContext":
    """ChaCha20's numbers; a key serves once, so that its nonce may be zero."""
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

    return Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor()


def quantize(change: NDArray[np.float64], factor: float, bits_: int) -> Words:
    """A change, times a factor, as whole numbers of 2^-bits; negative ones modulo 2^32."""
    whole = np.rint(change * math.ldexp(factor, bits_))
    return whole.astype("<i4").view(WORD)


def dequantize(total: Words, weight: int, bits_: int) -> NDArray[np.float64]:
    """The mean that a sum stands for, where `weight` is that of all silos together."""
    summed: NDArray[np.float64] = total.view("<i4").astype(np.float64)
    summed /= math.ldexp(weight / UNIT, bits_)
    return summed


def max_mean_norm(clip: float, weight: int, bits_: int, silos: int, values: int) -> float:
    """Largest norm of a mean of clipped changes, rounding included."""
    rounding = 0.5 * silos * math.sqrt(values) / math.ldexp(weight / UNIT, bits_)
    return clip * (1 + _ROUNDING) + rounding


def list_trained(shapes: Shapes, half: Half) -> list[str]:
    """Names of the trained tensors, in the order of a masked update."""
    return [name for name in sorted(shapes) if half in ("both", lora.side(name))]


def count_values(shapes: Shapes, names: Sequence[str]) -> int:
    """Values of some tensors together."""
    return sum(math.prod(shapes[name]) for name in names)


def mask_context(assignment: Assignment) -> dict[str, Any]:
    """What the masks depend on, alike for all silos: run, round, epoch and settings."""
    secure, masking = require_masking(assignment)
    return {
        "run": assignment.storage.prefix,
        "epoch": masking.epoch,
        "clip": secure.clip_norm,
        "inputs": {name: each for name, each in assignment.inputs().items() if name not in _OWN},
    }


_OWN = {
    *("environment", "demonstrations"),
    *(get_alias(Assignment, name) for name in list_fields(Assignment, Owner.SILO)),
}
"""Inputs that differ between silos."""


def mask_update(
    assignment: Assignment,
    own_key: OpeningKey,
    own: lora.Tensors,
    start: lora.Tensors,
    norm: float,
    counts: Counts,
) -> bytes:
    """What a silo sends of its update, whose change has that norm: a head and masked numbers.

    It depends on stored files and keys alone, so every machine computes the same bytes.
    """
    (secure, masking), said = require_masking(assignment), describe_masked(assignment, counts)
    shapes = lora.shapes(own)
    names = list_trained(shapes, assignment.settings.aggregation.half(assignment.round))
    factor = clip_factor(norm, secure.clip_norm) * said.weight / UNIT
    name = assignment.environment
    keys = pair_keys(own_key, name, masking.peers, mask_context(assignment))
    head, _ = arrange(shapes)
    return write_masked(
        head, quantize_change(own, start, names, factor, said.bits), Masks(name, keys)
    )


def quantize_change(
    own: lora.Tensors, start: lora.Tensors, names: Sequence[str], factor: float, bits_: int
) -> Iterator[Words]:
    """A silo's change as whole numbers, some at a time, in the order of the names."""
    for name in names:
        mine, theirs = own[name].reshape(-1), start[name].reshape(-1)
        for begin in range(0, mine.size, CHUNK):
            change = mine[begin : begin + CHUNK].astype(np.float64)
            change -= theirs[begin : begin + CHUNK]
            yield quantize(change, factor, bits_)


def write_masked(head: bytes, pieces: Iterator[Words], masks: Masks) -> bytes:
    """What a silo sends: the head that a plain adapter has, and its masked numbers."""
    whole = bytearray(head)
    for piece in pieces:
        masks.apply(piece)
        whole += piece.data
    return bytes(whole)
