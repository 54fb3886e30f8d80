"""Keys of parties: public ones as specs have them, private ones in PEM files.

A public key is an algorithm, a colon, and 32 bytes in base64url.
"""

import base64
import binascii
import functools
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from hansa.core.canonical import sha256
from hansa.core.errors import InputError

Algorithm = Literal["ed25519", "x25519"]
"""`ed25519` signs, `x25519` is encrypted to."""
KEY_BYTES = 32
_FINGERPRINT_DIGITS = 32
"""Finding another key with the same fingerprint takes about 2^128 tries."""


def format_public_key(algorithm: Algorithm, key: bytes) -> str:
    """A key's bytes as specs have it."""
    return f"{algorithm}:{base64.urlsafe_b64encode(key).decode().rstrip('=')}"


def is_public_key(text: str) -> bool:
    """Whether a text begins as a public key does."""
    return text.startswith(("ed25519:", "x25519:"))


def parse_public_key(algorithm: Algorithm, public: str) -> bytes:
    """The 32 bytes of a public key; InputError where it is none of that algorithm."""
    try:
        key = base64.urlsafe_b64decode(public.removeprefix(f"{algorithm}:") + "=")
    except (binascii.Error, ValueError):
        key = b""
    # base64 has spellings that decode alike
    if len(key) != KEY_BYTES or format_public_key(algorithm, key) != public:
        shown = public[:60].encode("unicode_escape").decode()
        raise InputError(
            f"public key: got '{shown}', expected {algorithm}: and 43 letters of base64url",
            hint="`hansa keys show FILE` prints it",
        )
    return key


def _parse_any(public: str) -> bytes:
    return parse_public_key("x25519" if public.startswith("x25519:") else "ed25519", public)


def keyid(public: str) -> str:
    """How envelopes, heads and messages name a key: 16 digits of its sha256."""
    return sha256(_parse_any(public))[:16]


def fingerprint(public: str) -> str:
    """What people compare of a key: digits of its sha256 in groups of four.

    It shows that a key was replaced in transit. Comparing fewer digits, or digits from the same
    source as the key, protects nobody.
    """
    digits = sha256(_parse_any(public))[:_FINGERPRINT_DIGITS]
    return " ".join(digits[at : at + 4] for at in range(0, _FINGERPRINT_DIGITS, 4))


@dataclass(frozen=True, kw_only=True)
class PrivateKey:
    """A private key; it never shows in a log or a traceback."""

    algorithm: ClassVar[Algorithm]
    """What it is a key of."""
    private: Any = field(repr=False)
    """The key itself, as `cryptography` has it."""

    @functools.cached_property
    def public(self) -> str:
        """The public half, as specs have it."""
        return format_public_key(self.algorithm, self.private.public_key().public_bytes_raw())

    def pem(self) -> bytes:
        """PKCS8 PEM, without a password: the file's mode or the Secret protects it."""
        from cryptography.hazmat.primitives import serialization as form

        return bytes(
            self.private.private_bytes(
                form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()
            )
        )


def load_pem(pem: bytes) -> Any:
    """The private key of one PEM block, of whatever algorithm; None where there is none."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        return load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
