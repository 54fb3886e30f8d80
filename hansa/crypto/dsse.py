"""Signed envelopes: DSSE 1.0 with Ed25519.

A signature covers the payload's type and its bytes as they are stored. So the payload is parsed
after it was verified, nothing is written anew to be checked, and a letter of one kind cannot pass
for another.

Limits: whoever has a private key signs as its owner, until the others take its public key out of
their lists. Envelopes are signed, not encrypted: who may read the bucket reads what is in them.
"""

import base64
import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, ValidationError

from hansa.core.canonical import canonical
from hansa.core.errors import InputError
from hansa.core.model import Model
from hansa.crypto.public_keys import keyid, raw, spell

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

Fault = Literal["malformed", "payload-type", "unknown-key", "signature"]


class Unverified(Exception):
    """Bytes that are no envelope of a trusted party; nothing of their payload was looked at."""

    def __init__(self, code: Fault) -> None:
        super().__init__(code)
        self.code: Fault = code


class _Signature(Model):
    keyid: Annotated[str, Field(max_length=64)] = ""
    """Which key signed, as a hint: it chooses the fault's code, and no key."""
    sig: Annotated[str, Field(max_length=128)]
    """Base64 of the signature."""


class _Envelope(Model):
    payload_type: Annotated[str, Field(max_length=128)]
    """What the payload is."""
    payload: str
    """Base64 of it."""
    signatures: Annotated[list[_Signature], Field(min_length=1, max_length=1)]
    """One: each letter has one writer."""


@dataclass(frozen=True, kw_only=True)
class SigningKey:
    """A private key; it never shows in a log or a traceback."""

    private: "Ed25519PrivateKey" = field(repr=False)
    """The key itself."""

    @functools.cached_property
    def public(self) -> str:
        """What the others put into their lists."""
        return spell("ed25519", self.private.public_key().public_bytes_raw())

    def pem(self) -> bytes:
        """PKCS8 PEM, without a password: the file's mode or the Secret protects it."""
        from cryptography.hazmat.primitives import serialization as form

        return self.private.private_bytes(
            form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()
        )


def new_key() -> SigningKey:
    """A key that nobody has yet, drawn from the machine's own randomness."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return SigningKey(private=Ed25519PrivateKey.generate())


def read_key(pem: bytes, where: str) -> SigningKey:
    """The private key of a PEM file; `where` is what its error names, which never shows the key."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(
            f"{where}: got no private key that can sign, expected an Ed25519 key in PKCS8 PEM "
            "without a password",
            hint="`hansa keys new FILE` makes one",
        )
    return SigningKey(private=key)


def pre_authentication(payload_type: str, payload: bytes) -> bytes:
    """What is signed: DSSE's PAE, which says where the type ends and the payload begins."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def seal(key: SigningKey, payload_type: str, payload: bytes) -> bytes:
    """The envelope's bytes; Ed25519 draws no random number, so they are the same each time."""
    signature = key.private.sign(pre_authentication(payload_type, payload))
    return canonical(
        {
            "payloadType": payload_type,
            "payload": base64.b64encode(payload).decode(),
            "signatures": [
                {"keyid": keyid(key.public), "sig": base64.b64encode(signature).decode()}
            ],
        }
    )


def unverified_payload(data: bytes) -> bytes:
    """What an envelope holds, whoever signed it: for one that itself says whose key it is to be."""
    try:
        return base64.b64decode(_Envelope.model_validate_json(data).payload, validate=True)
    except (ValidationError, ValueError):
        raise Unverified("malformed") from None


def verified(data: bytes, payload_type: str, trusted: Sequence[str]) -> bytes:
    """The payload that one of the trusted keys signed as this type; Unverified otherwise."""
    try:
        envelope = _Envelope.model_validate_json(data)
        payload = base64.b64decode(envelope.payload, validate=True)
        signature = base64.b64decode(envelope.signatures[0].sig, validate=True)
    except (ValidationError, ValueError):
        raise Unverified("malformed") from None
    if envelope.payload_type != payload_type:
        raise Unverified("payload-type")
    signed = pre_authentication(payload_type, payload)
    if any(_is_signed(public, signature, signed) for public in trusted):
        return payload
    named = envelope.signatures[0].keyid
    raise Unverified("signature" if named in map(keyid, trusted) else "unknown-key")


def _is_signed(public: str, signature: bytes, signed: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(raw("ed25519", public)).verify(signature, signed)
    except InvalidSignature:
        return False
    return True
