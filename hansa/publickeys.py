"""Public keys as specs have them: an algorithm, a colon, and 32 bytes in base64url."""

import base64
import binascii
from typing import Literal

from hansa.errors import InputError
from hansa.exchange.spoken import fingerprint
from hansa.manifest import sha256

Algorithm = Literal["ed25519", "x25519"]
"""`ed25519` signs, `x25519` is encrypted to."""
KEY_BYTES = 32


def spell(algorithm: Algorithm, key: bytes) -> str:
    """A key's bytes as specs have it."""
    return f"{algorithm}:{base64.urlsafe_b64encode(key).decode().rstrip('=')}"


def is_public(text: str) -> bool:
    """Whether a text begins as a public key does."""
    return text.startswith(("ed25519:", "x25519:"))


def raw(algorithm: Algorithm, public: str) -> bytes:
    """The 32 bytes of a public key; InputError where it is none of that algorithm."""
    try:
        key = base64.urlsafe_b64decode(public.removeprefix(f"{algorithm}:") + "=")
    except (binascii.Error, ValueError):
        key = b""
    # base64 has spellings that decode alike
    if len(key) != KEY_BYTES or spell(algorithm, key) != public:
        shown = public[:60].encode("unicode_escape").decode()
        raise InputError(
            f"public key: got '{shown}', expected {algorithm}: and 43 letters of base64url",
            hint="`hansa keys show FILE` prints it",
        )
    return key


def _any(public: str) -> bytes:
    return raw("x25519" if public.startswith("x25519:") else "ed25519", public)


def keyid(public: str) -> str:
    """How envelopes, heads and messages name a key: 16 digits of its sha256."""
    return sha256(_any(public))[:16]


def words(public: str) -> str:
    """The same key as eight words, for people to compare."""
    return fingerprint(_any(public))
