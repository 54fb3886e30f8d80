"""A Kubernetes without nodes: devkube's etcd, apiserver and controllers as plain processes.

No scheduler and no kubelet: Pods are made and stay pending until somebody writes their status, so
what is measured is the operator and not the work of a node. The apiserver keeps an audit log, in
which every requester has a name of its own. Needs no root; `tools/cluster build` makes the program.
"""

import contextlib
import json
import secrets
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from hansa.kubernetes.client import ApiError, Kube, connect

ROOT = Path(__file__).parents[2]
CLUSTER = ROOT / "tools" / "cluster"
CRD = ROOT / "crds" / "federation.yaml"
OPERATOR = "hansa-operator"
USERS = {
    "admin": "system:masters",
    "controllers": "system:masters",
    "nobodys-kubelet": "system:masters",
}
CONTROLLERS = (
    "job-controller,garbage-collector-controller,namespace-controller,serviceaccount-controller"
)
START_SECONDS = 120.0
AUDIT = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"]}
RULES = [
    ("hansa.dev", ["federations"], ["get", "list", "watch"]),
    ("hansa.dev", ["federations/status"], ["update"]),
    ("batch", ["jobs"], ["get", "list", "watch", "create", "delete"]),
    ("", ["pods"], ["list", "watch"]),
    ("", ["events"], ["list", "create"]),
    ("coordination.k8s.io", ["leases"], ["get", "create", "update"]),
]
"""What the operator may do, as the chart has it."""


class ControlPlane:
    """A context manager that starts it below a folder, and ends it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.audit = folder / "audit.log"
        self._tokens = {name: secrets.token_hex(16) for name in (*USERS, OPERATOR)}
        self._ports = free_ports(4)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._write_files()
        try:
            self._start("etcd", *self._etcd())
            self._start("kube-apiserver", *self._apiserver())
            self._wait()
            self._start("kube-controller-manager", *self._controllers())
            self._prepare()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in reversed(self._processes.values()):
            process.terminate()
        for process in reversed(self._processes.values()):
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def kubeconfig(self, user: str) -> Path:
        """File with which a program is this user."""
        path = self.folder / f"{user}.kubeconfig"
        server = {"server": self._server, "certificate-authority": str(self._authority)}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "bench", "cluster": server}],
            "users": [{"name": user, "user": {"token": self._tokens[user]}}],
            "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": user}}],
            "current-context": "bench",
        }
        path.write_text(json.dumps(document))
        return path

    def kube(self, user: str = "admin", pool_size: int = 4) -> Kube:
        """A client of this user."""
        return connect(str(self.kubeconfig(user)), pool_size=pool_size)

    @property
    def _authority(self) -> Path:
        """The apiserver makes its own certificate when it starts."""
        return self.folder / "certificates" / "apiserver.crt"

    @property
    def _server(self) -> str:
        return f"https://127.0.0.1:{self._ports[0]}"

    def pids(self) -> dict[str, int]:
        """Process of each part."""
        return {name: process.pid for name, process in self._processes.items()}

    def _start(self, name: str, *flags: str) -> None:
        program = _program()
        with (self.folder / f"{name}.log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                [str(program), name, *flags], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _write_files(self) -> None:
        lines = [f"{self._tokens[name]},{name},{name},{group}" for name, group in USERS.items()]
        lines.append(f"{self._tokens[OPERATOR]},{OPERATOR},{OPERATOR}")
        (self.folder / "tokens.csv").write_text("\n".join(lines) + "\n")
        policy = {**AUDIT, "rules": [{"level": "Metadata"}]}
        (self.folder / "audit.json").write_text(json.dumps(policy))
        key = str(self.folder / "accounts.key")
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)

    def _etcd(self) -> list[str]:
        client, peer = (f"http://127.0.0.1:{port}" for port in self._ports[1:3])
        return [
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
        ]

    def _apiserver(self) -> list[str]:
        return [
            f"--etcd-servers=http://127.0.0.1:{self._ports[1]}",
            f"--secure-port={self._ports[0]}",
            "--bind-address=127.0.0.1",
            f"--cert-dir={self.folder / 'certificates'}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--authorization-mode=RBAC",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.folder / 'accounts.key'}",
            f"--service-account-signing-key-file={self.folder / 'accounts.key'}",
            f"--audit-policy-file={self.folder / 'audit.json'}",
            f"--audit-log-path={self.audit}",
            "--profiling=false",
        ]

    def _controllers(self) -> list[str]:
        return [
            f"--kubeconfig={self.kubeconfig('controllers')}",
            f"--controllers={CONTROLLERS}",
            f"--service-account-private-key-file={self.folder / 'accounts.key'}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._ports[3]}",
            f"--cert-dir={self.folder / 'controllers'}",
            "--kube-api-qps=1000",  # its 20 a second are for clusters with other work to do
            "--kube-api-burst=2000",
            "--profiling=false",
        ]

    def _wait(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            for name, process in self._processes.items():
                if process.poll() is not None:
                    sys.exit(f"{name} ended by itself, see {self.folder / f'{name}.log'}")
            if self._authority.exists():
                with contextlib.suppress(ApiError):
                    self.kube().get("/api/v1/namespaces/default")
                    return
            time.sleep(0.3)
        sys.exit(f"the apiserver does not answer, see {self.folder / 'kube-apiserver.log'}")

    def _prepare(self) -> None:
        import yaml

        kube, rbac = self.kube(), "/apis/rbac.authorization.k8s.io/v1"
        kube.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
                    yaml.safe_load(CRD.read_text()))  # fmt: skip
        rules = [{"apiGroups": [g], "resources": r, "verbs": v} for g, r, v in RULES]
        named = {"metadata": {"name": OPERATOR}}
        kube.create(f"{rbac}/clusterroles", {**named, "rules": rules})
        kube.create(
            f"{rbac}/clusterrolebindings",
            {
                **named,
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "ClusterRole",
                    "name": OPERATOR,
                },
                "subjects": [
                    {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": OPERATOR}
                ],
            },
        )
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            try:
                kube.get("/apis/hansa.dev/v1alpha1/federations")
                return
            except ApiError:
                time.sleep(0.2)
        sys.exit("the CustomResourceDefinition is not served")


def _program() -> Path:
    """devkube, built if it is not there."""
    found = sorted((ROOT / ".cache" / "devkube").glob("build-*/devkube"))
    if not found:
        subprocess.run([str(CLUSTER), "build"], check=True)
        found = sorted((ROOT / ".cache" / "devkube").glob("build-*/devkube"))
    return found[-1]


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    held = [socket.socket() for _ in range(count)]
    for each in held:
        each.bind(("127.0.0.1", 0))
    ports = [int(each.getsockname()[1]) for each in held]
    for each in held:
        each.close()
    return ports
