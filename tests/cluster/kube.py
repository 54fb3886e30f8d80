"""A cluster as tests see it: tools/cluster, kubectl and a Pod in one line."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from hansa.api import constants
from hansa.kubernetes.client import ApiError, Kube, connect

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tools" / "cluster"
PROBE = "devkube.local/probe:1"
GIVEN = "HANSA_TEST_KUBECONFIG"
"""A cluster to use in place of devkube, with the images loaded and nodes that have GPUs."""
PATIENCE_SECONDS = 240.0
"""A bound against hanging tests, never a measure of anything."""

POLL_SECONDS = 0.1
"""Between two looks; one costs the apiserver some milliseconds."""

Manifest = dict[str, Any]

PATHS = {
    "hfed": (f"/apis/{constants.API_VERSION}", constants.PLURAL),
    "hmem": (f"/apis/{constants.API_VERSION}", constants.MEMBER_PLURAL),
    "job": ("/apis/batch/v1", "jobs"),
    "pod": ("/api/v1", "pods"),
    "service": ("/api/v1", "services"),
    "secret": ("/api/v1", "secrets"),
    "serviceaccount": ("/api/v1", "serviceaccounts"),
    "lease": ("/apis/coordination.k8s.io/v1", "leases"),
    "deployment": ("/apis/apps/v1", "deployments"),
}
"""Where the kinds are that tests look at often."""


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A cluster and its kubectl, in one namespace."""

    state: str = ""
    """devkube's state folder; empty means the usual one."""
    namespace: str = "default"
    """Where everything is looked for and made."""

    def script(self, *args: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[str]:
        """Run tools/cluster on this cluster; the caller judges how it ended."""
        environment = {**os.environ, **({"HANSA_CLUSTER": self.state} if self.state else {})}
        command = _given(args) if GIVEN in os.environ else [str(SCRIPT), *args]
        done = subprocess.run(
            command, env=environment, input=stdin, capture_output=True, timeout=1800
        )
        return subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
        )

    def kubectl(self, *args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run kubectl in the namespace; the caller judges how it ended."""
        return self.script("kubectl", "-n", self.namespace, *args, stdin=stdin.encode())

    def apply(self, *manifests: Manifest) -> None:
        """Apply these objects, or fail with what the apiserver said."""
        done = self.kubectl("apply", "--validate=strict", "-f", "-", stdin=_documents(manifests))
        assert done.returncode == 0, done.stderr

    def refusal(self, manifest: Manifest) -> str:
        """What the apiserver says to an object that it must not take."""
        done = self.kubectl("apply", "--validate=strict", "-f", "-", stdin=_documents([manifest]))
        assert done.returncode != 0, "was taken"
        return done.stderr

    def get(self, kind: str, name: str) -> Manifest:
        """One object; an empty one where it is not there or nobody answers."""
        if kind not in PATHS:
            done = self.kubectl("get", kind, name, "-o", "json")
            return json.loads(done.stdout) if done.returncode == 0 else {}
        try:
            return self.api.get(f"{self._path(kind)}/{name}")
        except ApiError:
            return {}

    def list(self, kind: str, selector: str = "") -> list[Manifest]:
        """Objects with these labels; none where nobody answers."""
        try:
            found = self.api.list(self._path(kind), labelSelector=selector or None)
        except ApiError:
            return []
        return list(found["items"])

    @property
    def api(self) -> Kube:
        """The apiserver without kubectl, whose start costs more than most answers."""
        return _connect(self.state or os.environ.get("HANSA_CLUSTER", ""))

    def _path(self, kind: str) -> str:
        group, plural = PATHS[kind]
        return f"{group}/namespaces/{self.namespace}/{plural}"

    def until(self, is_so: Callable[[], object], what: str) -> None:
        """Return when it is so; fail with a sentence when that takes too long."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_so():
            assert time.monotonic() < deadline, f"waited in vain: {what}"
            time.sleep(POLL_SECONDS)

    def scale(self, deployment: str, replicas: int) -> None:
        """Give a Deployment so many Pods, and wait until it has these and no others."""
        done = self.kubectl("scale", "deployment", deployment, f"--replicas={replicas}")
        assert done.returncode == 0, done.stderr
        self.settle(deployment)

    def settle(self, deployment: str) -> None:
        """Wait until a Deployment's Pods are those that it wants, each of them ready.

        `kubectl rollout status` leaves out a Pod that is being stopped, which may still act.
        """
        self.until(lambda: self._is_settled(deployment), f"{deployment} has the Pods it wants")

    def _is_settled(self, deployment: str) -> bool:
        found = self.get("deployment", deployment)
        if not found:
            return False
        spec, status = found["spec"], found.get("status", {})
        if status.get("observedGeneration") != found["metadata"]["generation"]:
            return False
        labels = spec["selector"]["matchLabels"].items()
        pods = self.list("pod", ",".join(f"{key}={value}" for key, value in labels))
        count = status.get("replicas", 0), status.get("updatedReplicas", 0), len(pods)
        return set(count) == {spec["replicas"]} and all(map(_is_ready, pods))

    def finished(self, pod: str) -> str:
        """The log of a Pod once it has ended, whichever way."""
        self.until(lambda: self.phase(pod) in ("Succeeded", "Failed"), f"{pod} ends")
        return self.kubectl("logs", pod).stdout.strip()

    def phase(self, pod: str) -> str:
        """The phase of a Pod, or nothing."""
        return str(self.get("pod", pod).get("status", {}).get("phase", ""))


@contextmanager
def running(cluster: Cluster, image: bytes) -> Iterator[Cluster]:
    """The cluster while it runs, with an image loaded; one that ran before is left running."""
    ran_before = cluster.script("status").returncode == 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # else the cluster would live on
    try:
        started = cluster.script("up")
        assert started.returncode == 0, started.stderr
        loaded = cluster.script("load-image", "-", stdin=image)
        assert loaded.returncode == 0, loaded.stderr
        yield cluster
    finally:
        if not ran_before:
            assert cluster.script("down").returncode == 0


def build_probe(folder: Path) -> Path:
    """The program that tests run in Pods, to see what can be seen from there."""
    program = folder / "probe"
    subprocess.run(
        ["go", "build", "-trimpath", "-o", str(program), "main.go"],
        cwd=Path(__file__).parent / "probe",
        env={**os.environ, "CGO_ENABLED": "0"},
        check=True,
    )
    return program


def probe_image(program: Path) -> bytes:
    """The archive of an image that has that program and nothing else."""
    made = subprocess.run(
        [str(SCRIPT), "make-image", PROBE, str(program)], check=True, capture_output=True
    )
    return made.stdout


def _given(args: tuple[str, ...]) -> list[str]:
    """What stands for a verb of tools/cluster on a cluster that somebody else runs."""
    verb, path = args[0], os.environ[GIVEN]
    if verb in ("kubectl", "helm"):
        program = shutil.which(verb)
        assert program, f"{verb}: got none, expected one in PATH for the cluster of {GIVEN}"
        return [program, "--kubeconfig", path, *args[1:]]
    if verb == "kubeconfig":
        return ["echo", path]
    if verb in ("up", "status"):
        return ["true"]
    pytest.skip(f"{verb} is devkube's, and {GIVEN} gives another cluster")


def _is_ready(pod: Manifest) -> bool:
    conditions = pod["status"].get("conditions", [])
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


@cache
def _connect(state: str) -> Kube:
    path = Cluster(state=state).script("kubeconfig").stdout.strip()
    return connect(path, timeout_seconds=10)


def _documents(manifests: Iterable[Manifest]) -> str:
    return str(yaml.safe_dump_all(manifests))


def make_pod(name: str, *args: str, **fields: Any) -> Manifest:
    """A Pod that runs the probe once, as restricted as Pod Security can ask for."""
    limits = fields.pop("limits", {})
    container = {
        "name": "probe",
        "image": PROBE,
        "imagePullPolicy": "Never",
        "args": list(args),
        "resources": {"limits": limits},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    spec = {"restartPolicy": "Never", "containers": [container], **fields}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def address(cluster: Cluster, pod: str) -> str:
    """The address of a Pod that runs."""
    cluster.until(lambda: cluster.phase(pod) == "Running", f"{pod} runs")
    return str(cluster.get("pod", pod)["status"]["podIP"])
