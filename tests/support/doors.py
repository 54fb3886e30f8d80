"""An encrypted door in front of a real S3 server, with a certificate of its own.

It notes whose requests come in, so that a test can tell who was shown which key.
"""

import re
import shutil
import socket
import ssl
import subprocess
from pathlib import Path

import pytest

from tests.support.faults import Fault, FaultyProxy, Request

_KEY = re.compile(rb"Credential=([^/]+)/")


class Door(FaultyProxy):
    """HTTPS on 127.0.0.1; `authority` is the file that vouches for it, and for no other door."""

    def __init__(self, upstream: str, folder: Path, name: str) -> None:
        super().__init__(upstream)
        self.authority = folder / f"{name}.crt"
        key = folder / f"{name}.key"
        certify(self.authority, key, name)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(self.authority, key)
        self.keys: list[str] = []
        """Access keys of all requests that arrived, in order; empty for an unsigned one."""
        self.heads: list[bytes] = []
        """Heads of these requests."""
        self.distrusted = 0
        """Connections that ended before a request, since the client trusts another authority."""

    @property
    def endpoint(self) -> str:
        return super().endpoint.replace("http:", "https:")

    def forget(self) -> None:
        """Begin anew with what is noted."""
        self.keys, self.heads, self.distrusted = [], [], 0

    def _serve(self, client: socket.socket) -> None:
        try:
            secure = self._context.wrap_socket(client, server_side=True)
        except OSError:
            self.distrusted += 1
            client.close()
            return
        super()._serve(secure)

    def _due(self, request: Request) -> Fault | None:
        signed = _KEY.search(request.head)
        self.keys.append(signed[1].decode() if signed else "")
        self.heads.append(request.head)
        return super()._due(request)


def certify(certificate: Path, key: Path, name: str) -> None:
    """A certificate of 127.0.0.1 that vouches for itself."""
    if not shutil.which("openssl"):
        pytest.skip("needs the program openssl, which makes certificates")
    wanted = ["-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(
        ["openssl", "req", "-x509", *wanted, *files, "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True,
        capture_output=True,
    )
