"""Masks that cancel in a sum: each pair of silos shares one, added by one, taken off by the other.

A silo's change becomes whole numbers of 32 bits, and the streams of all its pairs are added to
them, modulo 2^32. What it sends looks like noise; the sum over all silos of the pairs is the sum of
their numbers, to the bit and in any order.

Limits: all silos but two, with whoever reads the sum, learn the sum of these two. A silo's private
key opens all masks it ever made. Two different changes under the same masks give their difference
away, so a run that begins anew, with stores that were emptied, needs new keys. Nobody can tell
which silo has sent nonsense.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hansa.adapter import lora
from hansa.adapter.tensor_file import Shapes, arrange
from hansa.api.aggregation import Half
from hansa.api.assignment import Assignment
from hansa.api.bucket_documents import Counts, canonical, sha256
from hansa.api.secure_aggregation import Masked, Masking, Secure
from hansa.api.status import RoundSettings
from hansa.core.errors import InputError, PermanentError
from hansa.crypto.public_keys import KEY_BYTES, raw
from hansa.crypto.sealing import OpeningKey

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import CipherContext

Words = NDArray[np.uint32]
"""Numbers modulo 2^32."""

UNIT = 1024
"""Weights are whole numbers of this part of 1."""
WORD = np.dtype("<u4")
CHUNK = 2**16
"""Values that are masked at a time: they and a stream of as many stay in a core's cache."""
_VERSION = "hansa/mask/1"
_ROUNDING = 1e-6


def bits(silos: int, clip: float) -> int:
    """Bits behind the point, so that no sum of so many changes of that norm leaves 32 bits."""
    fraction, exponent = math.frexp(clip)
    whole = exponent - 1 if fraction == 0.5 else exponent  # the logarithm, rounded up
    return 30 - (silos - 1).bit_length() - max(0, whole)


def scale(norm: float, clip: float) -> float:
    """What a change of that norm is multiplied by, so that it has the clip's at most."""
    return min(1.0, clip / norm) if norm else 1.0


def settings_of(assignment: Assignment) -> tuple[Secure, Masking]:
    """How an assignment masks; a permanent error where it says only half of it."""
    secure, masking = assignment.settings.aggregation.secure, assignment.masking
    if secure is None or masking is None:
        field = "masking" if masking is None else "settings.aggregation.secure"
        raise PermanentError(f"{field}: got nothing, expected it where updates are masked")
    return secure, masking


def weight(settings: RoundSettings, counts: Counts) -> int:
    """What a silo counts, in units; a mean counts all alike, and so does privacy, which tells of
    no silo how much it has. Weights are public."""
    aggregation = settings.aggregation
    if aggregation.strategy != "weighted-mean" or settings.privacy:
        return UNIT
    by = counts.kept if aggregation.weight_by == "examples" else counts.succeeded
    return max(1, min(UNIT, by))


def described(assignment: Assignment, counts: Counts) -> Masked:
    """What the manifest of a masked update must say of it."""
    secure, masking = settings_of(assignment)
    return Masked(
        epoch=masking.epoch,
        peers=digest(masking.peers),
        bits=bits(len(masking.peers), secure.clip_norm),
        weight=weight(assignment.settings, counts),
    )


def digest(peers: Mapping[str, str]) -> str:
    """What stands for the silos of a sum and their keys."""
    return sha256(canonical(dict(peers)))


def pair_keys(
    own: OpeningKey, name: str, peers: Mapping[str, str], context: Mapping[str, Any]
) -> dict[str, bytes]:
    """The key that a silo shares with each other one, for one sum of what `context` names alone."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    shared = {"version": _VERSION, "peers": digest(peers), **context}
    made = {}
    for other in sorted(peers.keys() - {name}):
        try:
            public = X25519PublicKey.from_public_bytes(raw("x25519", peers[other]))
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

    def put_on(self, values: Words) -> None:
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


def encode(change: NDArray[np.float64], factor: float, bits_: int) -> Words:
    """A change, times a factor, as whole numbers of 2^-bits; negative ones modulo 2^32."""
    whole = np.rint(change * math.ldexp(factor, bits_))
    return whole.astype("<i4").view(WORD)


def decode(total: Words, weight: int, bits_: int) -> NDArray[np.float64]:
    """The mean that a sum stands for, where `weight` is that of all silos together."""
    summed: NDArray[np.float64] = total.view("<i4").astype(np.float64)
    summed /= math.ldexp(weight / UNIT, bits_)
    return summed


def most_norm(clip: float, weight: int, bits_: int, silos: int, values: int) -> float:
    """Norm of a mean at most, where every silo kept to the clip: what rounding adds is counted."""
    rounding = 0.5 * silos * math.sqrt(values) / math.ldexp(weight / UNIT, bits_)
    return clip * (1 + _ROUNDING) + rounding


def trained(shapes: Shapes, half: Half) -> list[str]:
    """Names of the tensors that a body has numbers of, in its order."""
    return [name for name in sorted(shapes) if half in ("both", lora.side(name))]


def count(shapes: Shapes, names: Sequence[str]) -> int:
    """Values of some tensors together."""
    return sum(math.prod(shapes[name]) for name in names)


def context(assignment: Assignment) -> dict[str, Any]:
    """What the masks of an epoch are for, alike for all silos: in another run, round or epoch, or
    with other settings, they are others."""
    secure, masking = settings_of(assignment)
    return {
        "run": assignment.storage.prefix,
        "epoch": masking.epoch,
        "clip": secure.clip_norm,
        "inputs": {name: each for name, each in assignment.inputs().items() if name not in _OWN},
    }


_OWN = {"environment", "world", "options", "demonstrations", "demonstrationsFrom"}
"""Inputs that each silo has for itself."""


def masked(
    assignment: Assignment,
    own_key: OpeningKey,
    own: lora.Tensors,
    start: lora.Tensors,
    norm: float,
    counts: Counts,
) -> bytes:
    """What a silo sends of its update, whose change has that norm: a head and masked numbers.

    It follows from stored files and keys alone: to the bit, on any machine.
    """
    (secure, masking), said = settings_of(assignment), described(assignment, counts)
    shapes = lora.shapes(own)
    names = trained(shapes, assignment.settings.aggregation.half(assignment.round))
    factor = scale(norm, secure.clip_norm) * said.weight / UNIT
    name = assignment.environment
    keys = pair_keys(own_key, name, masking.peers, context(assignment))
    head, _ = arrange(shapes)
    return body(head, numbers(own, start, names, factor, said.bits), Masks(name, keys))


def numbers(
    own: lora.Tensors, start: lora.Tensors, names: Sequence[str], factor: float, bits_: int
) -> Iterator[Words]:
    """A silo's change as whole numbers, some at a time, in the order of the names."""
    for name in names:
        mine, theirs = own[name].reshape(-1), start[name].reshape(-1)
        for begin in range(0, mine.size, CHUNK):
            change = mine[begin : begin + CHUNK].astype(np.float64)
            change -= theirs[begin : begin + CHUNK]
            yield encode(change, factor, bits_)


def body(head: bytes, pieces: Iterator[Words], masks: Masks) -> bytes:
    """What a silo sends: the head that a plain adapter has, and its masked numbers."""
    whole = bytearray(head)
    for piece in pieces:
        masks.put_on(piece)
        whole += piece.data
    return bytes(whole)
