"""The API server must prove who it is, and the client may have to."""

import base64
import ssl
import threading
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import HTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from hansa.kubernetes import client
from hansa.kubernetes.client import ApiError, connect
from hansa.kubernetes.errors import explain
from tests.support.kubeconfigs import write_kubeconfig
from tests.support.loopback import QuietHandler

ADDRESS = x509.IPAddress(ip_address("127.0.0.1"))
OTHER = x509.DNSName("apiserver")
Pair = tuple[x509.Certificate, ec.EllipticCurvePrivateKey]


def certify(name: str, authority: Pair | None, *names: x509.GeneralName) -> Pair:
    """A certificate as EKS and microk8s made them: without a key identifier."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    signed = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(authority[0].subject if authority else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=authority is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names or [OTHER]), critical=False)
        .sign(authority[1] if authority else key, hashes.SHA256())
    )
    return signed, key


def pem(pair: Pair) -> tuple[bytes, bytes]:
    form = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pair[0].public_bytes(Encoding.PEM), pair[1].private_bytes(*form)


def data(text: bytes) -> str:
    return base64.b64encode(text).decode()


class Handler(QuietHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")


class Server:
    """An API server that asks for a client's certificate where it is told to."""

    def __init__(self, folder: Path, authority: Pair, *names: x509.GeneralName) -> None:
        self.folder, self.authority = folder, pem(authority)[0]
        (folder / "server.pem").write_bytes(b"".join(pem(certify("s", authority, *names))))
        (folder / "ca.crt").write_bytes(self.authority)
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(folder / "server.pem")
        self.tls.load_verify_locations(folder / "ca.crt")
        self.http = HTTPServer(("127.0.0.1", 0), Handler)
        self.http.socket = self.tls.wrap_socket(self.http.socket, server_side=True)
        self.http.handle_error = lambda *args: None  # type: ignore[method-assign]
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.01,))
        self.thread.start()

    def connect(self, cluster: dict[str, Any], user: dict[str, Any] | None = None) -> client.Kube:
        server = {"server": f"https://127.0.0.1:{self.http.server_port}", **cluster}
        return connect(write_kubeconfig(self.folder / "config", server, user or {}))

    def stop(self) -> None:
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


@pytest.fixture
def authority() -> Pair:
    return certify("authority", None)


@pytest.fixture
def server(
    tmp_path: Path, authority: Pair, monkeypatch: pytest.MonkeyPatch, request: Any
) -> Iterator[Server]:
    monkeypatch.setattr(client, "PAUSES", ())
    running = Server(tmp_path, authority, getattr(request, "param", ADDRESS))
    yield running
    running.stop()


def test_a_server_of_the_named_authority_is_trusted(server: Server) -> None:
    assert server.connect({"certificate-authority": "ca.crt"}).get("/x") == {}
    assert server.connect({"certificate-authority-data": data(server.authority)}).get("/x") == {}


def test_any_other_server_is_told_in_a_sentence(server: Server) -> None:
    kube = server.connect({})
    with pytest.raises(ApiError) as found:
        kube.get("/x")
    assert (found.value.status, found.value.reason) == (0, "Untrusted")
    sentence = explain(found.value, kube)
    assert sentence.message.startswith(f"{kube.server}: its certificate is not trusted (")
    assert "context home needs its certificate-authority" in sentence.hint


def test_a_user_may_ask_to_trust_any_server(server: Server) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert server.connect({"insecure-skip-tls-verify": True}).get("/x") == {}


@pytest.mark.parametrize("server", [OTHER], indirect=True)
def test_a_certificate_of_another_name_needs_that_name(server: Server) -> None:
    trusted = {"certificate-authority-data": data(server.authority)}
    with pytest.raises(ApiError, match=r"127\.0\.0\.1"):
        server.connect(trusted).get("/x")
    assert server.connect({**trusted, "tls-server-name": "apiserver"}).get("/x") == {}


def test_a_client_shows_its_certificate(server: Server, authority: Pair) -> None:
    server.tls.verify_mode = ssl.CERT_REQUIRED
    trusted = {"certificate-authority-data": data(server.authority)}
    shown, key = pem(certify("ann", authority))
    user = {"client-certificate-data": data(shown), "client-key-data": data(key)}
    assert server.connect(trusted, user).get("/x") == {}
    with pytest.raises(ApiError):
        server.connect(trusted).get("/x")


def test_a_certificate_without_key_identifier_is_enough(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.13 and later refuse it by default."""
    make = ssl.create_default_context

    def make_strict(*args: Any, **options: Any) -> ssl.SSLContext:
        context = make(*args, **options)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", make_strict)
    assert server.connect({"certificate-authority": "ca.crt"}).get("/x") == {}
