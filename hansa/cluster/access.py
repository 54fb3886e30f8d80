"""Who we are and where the apiserver is, from the kubeconfig or a Pod's own account.

Bearer tokens from files are read again every minute, since the kubelet rotates them; those of a
credential plugin when they expire or are refused.
"""

import base64
import ipaddress
import json
import os
import ssl
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies_environment

from hansa.cluster.kubeconfig import Data, Kubeconfig, read_kubeconfig
from hansa.errors import InputError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TOKEN_SECONDS = 60.0
"""How long a token from a file is trusted before the file is read again."""
EARLY_SECONDS = 30.0
"""How long before its end a plugin's token is replaced."""


@dataclass(kw_only=True)
class Access:
    """Address, certificates and credentials of one apiserver."""

    server: str
    """Base address, without a slash at its end."""
    namespace: str = "default"
    """Namespace of the context, or of the Pod."""
    context: str = ""
    """Name of the kubeconfig's context; empty in a Pod."""
    authority: bytes | None = None
    """Certificates the apiserver's is checked against; none: those of the system."""
    insecure: bool = False
    """Whether the user asked to trust any certificate."""
    server_name: str = ""
    """Name in the apiserver's certificate, where it is not that of the address."""
    proxy: str = ""
    """Proxy to go through."""
    certificate: bytes = b""
    """The client's certificate."""
    key: bytes = field(default=b"", repr=False)
    """The client's key."""
    token: str = field(default="", repr=False)
    """Bearer token."""
    token_file: Path | None = None
    """File that the token is read from, again and again."""
    plugin: Data | None = field(default=None, repr=False)
    """The kubeconfig's `exec`: a program that prints credentials."""
    others: dict[str, str] = field(default_factory=dict, repr=False)
    """Further headers: basic authentication, impersonation."""
    _until: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def can_renew(self) -> bool:
        """Whether a refused credential can be replaced by a newer one."""
        return bool(self.token_file or self.plugin)

    def headers(self) -> dict[str, str]:
        """What proves to the apiserver who asks."""
        bearer = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        return {**self.others, **bearer}

    def renew(self, *, force: bool = False) -> bool:
        """Replace credentials that have aged; whether the client's certificate changed."""
        if not self.can_renew or (not force and time.time() < self._until):
            return False
        with self._lock:
            if not force and time.time() < self._until:
                return False
            if self.token_file:
                self.token = _text(self.token_file).strip()
                self._until = time.time() + TOKEN_SECONDS
                return False
            return self._ask_plugin()

    def _ask_plugin(self) -> bool:
        given = _run_plugin(self.plugin or {}, self.server)
        self.token = str(given.get("token") or "")
        self._until = _expiry(given.get("expirationTimestamp"))
        certificate = str(given.get("clientCertificateData") or "").encode()
        changed = certificate != self.certificate and bool(certificate)
        if changed:
            self.certificate, self.key = certificate, str(given.get("clientKeyData")).encode()
        return changed

    def tls(self) -> ssl.SSLContext:
        """The TLS settings; keys that are data only touch the disk for as long as OpenSSL reads."""
        context = ssl.create_default_context()
        if self.authority:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_verify_locations(cadata=self.authority.decode("latin-1"))
        # Newer Pythons refuse certificates without a key identifier; many clusters have such.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.certificate:
            with tempfile.NamedTemporaryFile() as file:  # mode 0600
                file.write(self.certificate + b"\n" + self.key)
                file.flush()
                context.load_cert_chain(file.name)
        return context


def find_access(kubeconfig: str | None = None, context: str | None = None) -> Access:
    """The cluster that kubectl would speak to from here; a sentence when there is none."""
    config = read_kubeconfig(kubeconfig)
    if config is None and context is None and "KUBERNETES_SERVICE_HOST" in os.environ:
        return of_pod()
    if config is None:
        raise InputError(
            "kubeconfig: got none, expected --kubeconfig, $KUBECONFIG or ~/.kube/config",
            hint="`kubectl config view` shows what kubectl uses; for a run on this machine: --out",
        )
    return of_kubeconfig(config, context)


def of_pod() -> Access:
    """A Pod's own ServiceAccount."""
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    address = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return Access(
        server=address,
        namespace=_text(SERVICE_ACCOUNT / "namespace").strip() or "default",
        authority=_text(SERVICE_ACCOUNT / "ca.crt").encode(),
        token_file=SERVICE_ACCOUNT / "token",
        proxy=_proxy_of_environment(address),
    )


def of_kubeconfig(config: Kubeconfig, wanted: str | None = None) -> Access:
    """The access that a context of the kubeconfig describes."""
    name = wanted or config.current
    context = config.entry("context", name)
    cluster = config.entry("cluster", context.get("cluster") or "")
    user = config.entry("user", context.get("user") or "") if context.get("user") else Data()
    server = str(cluster.get("server") or "").rstrip("/")
    if not server.startswith(("https://", "http://")):
        raise InputError(f"kubeconfig: cluster {context.get('cluster')}: server: got {server!r}")
    if "auth-provider" in user:
        raise InputError(
            f"kubeconfig: user {context.get('user')}: auth-provider is no longer supported",
            hint="use the credential plugin of your provider (`exec`), as kubectl asks for too",
        )
    token_file = user.get("tokenFile")
    return Access(
        server=server,
        context=name,
        namespace=str(context.get("namespace") or "default"),
        authority=_bytes(cluster, "certificate-authority") or None,
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        server_name=str(cluster.get("tls-server-name") or ""),
        proxy=str(cluster.get("proxy-url") or _proxy_of_environment(server)),
        certificate=_bytes(user, "client-certificate"),
        key=_bytes(user, "client-key"),
        token="" if token_file else str(user.get("token") or ""),
        token_file=Path(token_file) if token_file else None,
        plugin=user.get("exec"),
        others=_other_headers(user),
    )


def _other_headers(user: Data) -> dict[str, str]:
    headers: dict[str, str] = {}
    if user.get("username"):
        pair = f"{user['username']}:{user.get('password') or ''}".encode()
        headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
    if user.get("as"):
        headers["Impersonate-User"] = str(user["as"])
    return headers


def _bytes(entry: Data, name: str) -> bytes:
    """A certificate or key: inline data wins over a file, as in kubectl."""
    if entry.get(f"{name}-data"):
        try:
            return base64.b64decode(entry[f"{name}-data"], validate=True)
        except ValueError:
            raise InputError(f"kubeconfig: {name}-data: got something else than base64") from None
    return _text(Path(entry[name])).encode() if entry.get(name) else b""


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}", hint="the kubeconfig names it") from None


# -- credential plugins ---------------------------------------------------------------------------


def _run_plugin(plugin: Data, server: str) -> Data:
    """The status of the ExecCredential that the plugin prints."""
    command = [str(plugin.get("command")), *(str(word) for word in plugin.get("args") or ())]
    asked: Data = {"apiVersion": plugin.get("apiVersion"), "kind": "ExecCredential"}
    asked["spec"] = {"interactive": False}
    if plugin.get("provideClusterInfo"):
        asked["spec"]["cluster"] = {"server": server}
    added = {str(e["name"]): str(e["value"]) for e in plugin.get("env") or ()}
    environment = {**os.environ, **added, "KUBERNETES_EXEC_INFO": json.dumps(asked)}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, timeout=120)
    except (OSError, subprocess.TimeoutExpired) as error:
        hint = str(plugin.get("installHint") or "the kubeconfig's user names it under `exec`")
        raise InputError(f"kubeconfig: {command[0]}: {_why(error)}", hint=hint) from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise InputError(
            f"kubeconfig: {command[0]} ended with {done.returncode}: {said[-1] if said else ''}",
            hint="log in again the way your provider asks for",
        )
    try:
        status = json.loads(done.stdout)["status"]
    except (ValueError, KeyError, TypeError):
        raise InputError(f"kubeconfig: {command[0]} printed no ExecCredential") from None
    return dict(status)


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or "it did not answer within 120 s"


def _expiry(text: Any) -> float:
    if not text:
        return float("inf")
    end = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    return (end if end.tzinfo else end.replace(tzinfo=UTC)).timestamp() - EARLY_SECONDS


# -- proxies --------------------------------------------------------------------------------------


def _proxy_of_environment(server: str) -> str:
    """HTTPS_PROXY unless NO_PROXY names the host, a domain above it or a network around it."""
    parts, proxies = urlsplit(server), getproxies_environment()
    host = (parts.hostname or "").lower()
    bypass = [rule.strip().lower() for rule in proxies.get("no", "").split(",") if rule.strip()]
    if host in ("localhost", "") or any(_is_covered(host, rule) for rule in bypass):
        return ""
    return proxies.get(parts.scheme, "")


def _is_covered(host: str, rule: str) -> bool:
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(rule, strict=False)
    except ValueError:
        name = rule.partition(":")[0].lstrip("*").lstrip(".")
        return rule == "*" or host == name or host.endswith(f".{name}")
