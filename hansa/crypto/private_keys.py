"""Private keys in PEM files: how they are written and read, whatever they are for."""

import functools
from dataclasses import dataclass, field
from typing import Any, ClassVar

from hansa.crypto.public_keys import Algorithm, format_public_key


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
