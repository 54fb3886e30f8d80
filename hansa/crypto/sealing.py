"""Sealed objects: encrypted to one reader's X25519 key, and checked chunk by chunk when opened.

A sealed object is a head (magic bytes, the reader's key ID, an ephemeral public key) and chunks
under ChaCha20-Poly1305. The object's own name is part of its key, and each chunk's number and
whether it is the last are part of its nonce: moving, truncating or replacing parts is detected.

Limits: anyone with the reader's private key can open everything that was ever sealed to it. Objects
that are sealed to a public key are not signed: anyone can seal other bytes, which the manifest's
digest detects. What a party seals to itself, only it can seal.
Their length shows the length of what is in them.
"""

import io
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from hansa.core.canonical import sha256
from hansa.core.errors import InputError, KeyMissing, UnsealError
from hansa.crypto.keys import KEY_BYTES, PrivateKey, keyid, load_pem, parse_public_key

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

ENV_SEALING_KEY = "HANSA_SEALING_KEY"
"""File of the private keys with which a program opens what was sealed to them."""

MAGIC = b"hansa-sealed/1\n\0"
_OWN = b"hansa-sealed/1 own"
CHUNK = 2**18
"""Bytes of a chunk before it is sealed."""
_KEYID, _TAG = 8, 16
HEAD = len(MAGIC) + _KEYID + KEY_BYTES
STEP = CHUNK + _TAG
"""Bytes of a sealed chunk; the last one is shorter."""
MOST_KEYS = 8
"""Private keys in one file at most: a new one, and retired ones for objects sealed before."""


class OpeningKey(PrivateKey):
    """A reader's private key; writers seal to its public half."""

    algorithm = "x25519"

    def mix(self, shared: bytes) -> bytes:
        """The secret that an object's key follows from: that of both sides."""
        return shared


class OwnKey(OpeningKey):
    """A key by which a party seals to itself: who knows its public half alone can seal nothing."""

    def mix(self, shared: bytes) -> bytes:
        """The secret of both sides, and one that only the holder of the private key has."""
        return shared + bytes.fromhex(sha256(_OWN + self.private.private_bytes_raw()))


def generate_opening_key() -> OpeningKey:
    """A new key, from the operating system's random numbers."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return OpeningKey(private=X25519PrivateKey.generate())


def read_keys(pem: bytes, where: str) -> list[OpeningKey]:
    """The private keys of a PEM file, one after another; `where` is what its error names."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    blocks = re.findall(rb"-----BEGIN [^-]+-----.*?-----END [^-]+-----", pem, re.DOTALL)
    keys = [load_pem(block) for block in blocks[: MOST_KEYS + 1]]
    own = [OpeningKey(private=key) for key in keys if isinstance(key, X25519PrivateKey)]
    if not own or len(own) < len(keys) or len(keys) > MOST_KEYS:
        raise InputError(
            f"{where}: got no private keys that can open, expected 1 to {MOST_KEYS} X25519 keys "
            "in PKCS8 PEM without a password",
            hint="`hansa keys new FILE --sealing` makes one",
        )
    return own


def sealed_size(size: int) -> int:
    """Bytes of an object once it is sealed; also of an empty one there is a last chunk."""
    return HEAD + size + _TAG * max(1, -(-size // CHUNK))


def plain_size(size: int) -> int:
    """Bytes in a sealed object of that size; Unopened where none has that size."""
    inside = size - HEAD
    chunks = max(1, -(-inside // STEP))
    plain = inside - _TAG * chunks
    if plain < 0 or sealed_size(plain) != size:
        raise UnsealError(f"got {size} bytes, which no sealed object has")
    return plain


def is_sealed(head: bytes) -> bool:
    """Whether bytes are the beginning of a sealed object."""
    return head.startswith(MAGIC)


def seal(to: str | OwnKey, name: str, data: bytes) -> bytes:
    """The sealed object of that name; each call gives other bytes, since the key is ephemeral.

    `to` is the reader's public key, or the key of a party that seals to itself.
    """
    return b"".join(seal_pieces(to, name, len(data), io.BytesIO(data).read))


def seal_pieces(
    to: str | OwnKey, name: str, size: int, read: Callable[[int], bytes]
) -> Iterator[bytes]:
    """The same, piece by piece; `read` gives the next bytes of what goes into it."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

    public = to if isinstance(to, str) else to.public
    reader, own = parse_public_key("x25519", public), X25519PrivateKey.generate()
    ephemeral = own.public_key().public_bytes_raw()
    try:
        shared = own.exchange(X25519PublicKey.from_public_bytes(reader))
    except ValueError:  # a point with which every secret is the same
        raise InputError(f"public key: got {public}, which seals nothing") from None
    shared = shared if isinstance(to, str) else to.mix(shared)
    cipher = _derive_cipher(shared, ephemeral, reader, name)
    yield MAGIC + bytes.fromhex(keyid(public)) + ephemeral
    last = max(0, (size - 1) // CHUNK)
    for number in range(last + 1):
        yield cipher.encrypt(_nonce(number, is_last=number == last), read(CHUNK), None)


class Unsealer:
    """Opens one sealed object as its bytes arrive; each chunk is checked before it is yielded."""

    def __init__(self, keys: Sequence[OpeningKey], name: str, size: int) -> None:
        """`size` is that of the sealed object: it tells which chunk is the last."""
        self._keys = keys
        self._name = name
        self._left = size
        self._chunks: _Chunks | None = None
        self._number = 0
        self._rest = bytearray()

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """The plain bytes of the next sealed ones; Unopened where they were changed."""
        self._rest += piece
        self._left -= len(piece)
        if self._chunks is None and len(self._rest) >= HEAD:
            size = self._left + len(self._rest)  # nothing was removed from _rest yet
            self._chunks = _Chunks(self._keys, self._name, bytes(self._rest[:HEAD]), size)
            del self._rest[:HEAD]
        while self._chunks and (len(self._rest) >= STEP or (self._rest and self._left <= 0)):
            yield self._chunks.opened(self._number, bytes(self._rest[:STEP]))
            del self._rest[:STEP]
            self._number += 1


class _Chunks:
    """The chunks of one sealed object whose head is known."""

    def __init__(self, keys: Sequence[OpeningKey], name: str, head: bytes, size: int) -> None:
        self._name = name
        self._cipher = _agree_on_cipher(head, keys, name)
        self._last = -(-plain_size(size) // CHUNK) - 1 if plain_size(size) else 0

    def opened(self, number: int, sealed: bytes) -> bytes:
        from cryptography.exceptions import InvalidTag

        try:
            return self._cipher.decrypt(_nonce(number, is_last=number == self._last), sealed, None)
        except (InvalidTag, ValueError):
            raise UnsealError(f"{self._name}: chunk {number} is not as it was sealed") from None


def unseal(keys: Sequence[OpeningKey], name: str, data: bytes) -> bytes:
    """What is in a sealed object."""
    if len(data) < HEAD:
        raise UnsealError(f"{name}: it is not sealed")
    return b"".join(Unsealer(keys, name, len(data)).feed(data))


def unseal_range(
    keys: Sequence[OpeningKey],
    name: str,
    wanted: range,
    size: int,
    read: Callable[[int, int], bytes],
) -> bytes:
    """A range of what is in a sealed object; only the chunks around it are read."""
    inside = range(plain_size(size))[wanted.start : wanted.stop]
    if not inside:
        return b""
    first, behind = inside.start // CHUNK, -(-inside.stop // CHUNK)
    begin = HEAD + first * STEP
    data = read(0, HEAD + behind * STEP) if first == 0 else read(begin, (behind - first) * STEP)
    head, data = (data[:HEAD], data[HEAD:]) if first == 0 else (read(0, HEAD), data)
    chunks = _Chunks(keys, name, head, size)
    plain = [
        chunks.opened(number, data[(number - first) * STEP : (number - first + 1) * STEP])
        for number in range(first, behind)
    ]
    begin = inside.start - first * CHUNK
    return b"".join(plain)[begin : begin + len(inside)]


def _agree_on_cipher(head: bytes, keys: Sequence[OpeningKey], name: str) -> "ChaCha20Poly1305":
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

    if not is_sealed(head):
        raise UnsealError(f"{name}: it is not sealed")
    named, ephemeral = head[len(MAGIC) : -KEY_BYTES].hex(), head[-KEY_BYTES:]
    key = next((key for key in keys if keyid(key.public) == named), None)
    if key is None:
        raise KeyMissing(f"{name}: it is sealed to the key {named}, which is not at hand")
    try:
        shared = key.private.exchange(X25519PublicKey.from_public_bytes(ephemeral))
    except ValueError:
        raise UnsealError(f"{name}: its head names no public key") from None
    reader = parse_public_key("x25519", key.public)
    return _derive_cipher(key.mix(shared), ephemeral, reader, name)


def _derive_cipher(shared: bytes, ephemeral: bytes, reader: bytes, name: str) -> "ChaCha20Poly1305":
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    info = MAGIC + name.encode()
    made = HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=ephemeral + reader, info=info)
    return ChaCha20Poly1305(made.derive(shared))


def _nonce(number: int, *, is_last: bool) -> bytes:
    return number.to_bytes(11) + bytes([is_last])
