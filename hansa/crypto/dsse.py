"""Signed envelopes: DSSE 1.0 with Ed25519.

A signature covers the payload's type and its bytes as they are stored. So the payload is parsed
after it was verified, nothing is serialized again to be checked, and a letter of one kind cannot
pass for another.

Limits: anyone with a private key signs as its owner, until the others remove its public key from
their lists. Envelopes are signed, not encrypted: anyone who can read the bucket can read them.
"""

import base64
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from hansa.core.canonical import canonical
from hansa.core.errors import InputError
from hansa.core.model import Model
from hansa.crypto.keys import PrivateKey, keyid, load_pem, parse_public_key

Fault = Literal["malformed", "payload-type", "unknown-key", "signature"]


class Unverified(Exception):
    """Bytes that are no envelope of a trusted party; their payload was not parsed."""

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


class SigningKey(PrivateKey):
    """A party's private key; the others have its public half in their lists."""

    algorithm = "ed25519"


def generate_signing_key() -> SigningKey:
    """A new key, from the operating system's random numbers."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return SigningKey(private=Ed25519PrivateKey.generate())


def read_key(pem: bytes, where: str) -> SigningKey:
    """The private key of a PEM file; `where` is what its error names, which never shows the key."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = load_pem(pem)
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(
            f"{where}: got no private key that can sign, expected an Ed25519 key in PKCS8 PEM "
            "without a password",
            hint="`hansa keys new FILE` makes one",
        )
    return SigningKey(private=key)


def encode_pre_authentication(payload_type: str, payload: bytes) -> bytes:
    """What is signed: DSSE's PAE, which says where the type ends and the payload begins."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def sign_envelope(key: SigningKey, payload_type: str, payload: bytes) -> bytes:
    """The envelope's bytes; Ed25519 is deterministic, so they are the same each time."""
    signature = key.private.sign(encode_pre_authentication(payload_type, payload))
    encoded, sig = base64.b64encode(payload).decode(), base64.b64encode(signature).decode()
    signatures = [{"keyid": keyid(key.public), "sig": sig}]
    return canonical({"payloadType": payload_type, "payload": encoded, "signatures": signatures})


def read_unverified_payload(data: bytes) -> bytes:
    """What an envelope holds, whoever signed it: for a payload that itself names the key."""
    _, payload, _ = _parse_envelope(data)
    return payload


def _parse_envelope(data: bytes) -> tuple[_Envelope, bytes, bytes]:
    """The envelope, its payload and its signature, none of which is verified."""
    try:
        envelope = _Envelope.model_validate_json(data)
        payload = base64.b64decode(envelope.payload, validate=True)
        return envelope, payload, base64.b64decode(envelope.signatures[0].sig, validate=True)
    except (ValidationError, ValueError):
        raise Unverified("malformed") from None


def verify_envelope(data: bytes, payload_type: str, trusted: Sequence[str]) -> bytes:
    """The payload that one of the trusted keys signed as this type; Unverified otherwise."""
    envelope, payload, signature = _parse_envelope(data)
    if envelope.payload_type != payload_type:
        raise Unverified("payload-type")
    signed = encode_pre_authentication(payload_type, payload)
    if any(_is_signed(public, signature, signed) for public in trusted):
        return payload
    named = envelope.signatures[0].keyid
    raise Unverified("signature" if named in map(keyid, trusted) else "unknown-key")


def _is_signed(public: str, signature: bytes, signed: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(parse_public_key("ed25519", public)).verify(
            signature, signed
        )
    except InvalidSignature:
        return False
    return True
