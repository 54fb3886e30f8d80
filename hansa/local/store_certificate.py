"""The certificate by which the parts of the embedded store know one another.

Its S3 door asks for credentials; its gRPC doors ask for this certificate, which is made anew at
each start and lies where only its owner reads it. So other users of the machine have no way in.
"""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

PARTS = ("MASTER", "VOLUME", "FILER", "S3", "CLIENT", "ADMIN", "WORKER", "MSG_BROKER", "MSG_AGENT")
_LIFETIME = timedelta(days=3650)
"""Longer than any run: the key is gone with the process."""


def make_certificate(folder: Path) -> dict[str, str]:
    """Write a new key and its certificate into a private folder; the variables that name them."""
    from cryptography import x509  # 40 ms, which only a run needs
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "hansa")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate, private = folder / "grpc.pem", folder / "grpc.key"
    _write_private(certificate, made.public_bytes(serialization.Encoding.PEM))
    _write_private(
        private,
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )
    named = {"WEED_GRPC_CA": str(certificate)}
    for part in PARTS:
        named |= {f"WEED_GRPC_{part}_CERT": str(certificate), f"WEED_GRPC_{part}_KEY": str(private)}
    return named


def _write_private(path: Path, data: bytes) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
