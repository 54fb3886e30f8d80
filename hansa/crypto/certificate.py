"""A certificate for programs of one owner that speak to one another, and to nobody else."""

import os
from datetime import UTC, datetime
from pathlib import Path

_VALID = datetime(2020, 1, 1, tzinfo=UTC), datetime(2120, 1, 1, tzinfo=UTC)
"""Whatever the machine's clock says: the key is gone with the process."""


def make_certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """Write a new key and its own certificate into a private folder, as NAME.pem and NAME.key."""
    from cryptography import x509  # 40 ms, which only a run needs
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "hansa")])
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(_VALID[0])
        .not_valid_after(_VALID[1])
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    encoding, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    private = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, plain)
    files = folder / f"{name}.pem", folder / f"{name}.key"
    for path, data in zip(files, (made.public_bytes(encoding), private), strict=True):
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
    return files
