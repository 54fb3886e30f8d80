"""Hansa as its users have it: installed by the chart, with MinIO, on a real cluster."""

import base64
import json
import os
import subprocess
import time
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import boto3

from hansa.api import bucket_keys, constants
from hansa.api.spec import S3
from hansa.store.base import Credentials
from hansa.store.s3 import S3Store
from tests.cluster.kube import PATIENCE_SECONDS, POLL_SECONDS, ROOT, Cluster, Manifest
from tests.support.small import FILES, SPEC

NAMESPACE = "hansa"
RELEASE = "hansa"
OPERATOR = f"{RELEASE}-operator"
BUCKET = "hansa"
ADDRESS = f"http://{RELEASE}-minio.{NAMESPACE}.svc:9000"
"""The store as Pods reach it."""
WORLDS = ("maze", "webshop")
ELSEWHERE = {"joined": ("webshop",), "shared": ("webshop",)}
"""Silos of a federation that run outside its namespace, or outside the cluster."""
MASKED = {"masked": ("a", "b", "c", "d")}
"""Silos of a federation that masks its updates."""
LONG_SECONDS = 420.0
"""A bound against hanging tests: a federation of two rounds takes one to two minutes."""
SETTINGS = {
    "allowedPriorityClasses": ["no-such-class"],
    "allowedRuntimeClasses": ["no-such-runtime"],
}
"""What tests of Pods that cannot start may name."""
ENDS = ("Succeeded", "Failed")


@dataclass(frozen=True, kw_only=True)
class Hansa:
    """The installed operator and its store, in one namespace."""

    cluster: Cluster
    """The cluster, in the namespace of the release."""
    federations: tuple[str, ...]
    """Names that MinIO has users and Secrets for."""

    # -- federations ------------------------------------------------------------------------------

    def manifest(self, name: str, **changes: Any) -> Manifest:
        """The small federation of two worlds, each with one GPU and credentials of its own."""
        assert name in self.federations, f"the chart made no users for {name}"
        gpu = {"name": "client", "resources": {"limits": {"nvidia.com/gpu": 1}}}
        environments = [
            {
                **environment,
                "credentialsSecret": {"name": f"{name}-{environment['name']}"},
                "podTemplate": {"spec": {"containers": [gpu]}},
            }
            for environment in SPEC["environments"]
        ]
        storage = {
            "endpoint": ADDRESS,
            "bucket": BUCKET,
            "prefix": name,
            "credentialsSecret": {"name": f"{name}-aggregator"},
        }
        spec = {**SPEC, "environments": environments, "storage": {"s3": storage}, **changes}
        metadata = {"name": name, "namespace": NAMESPACE}
        return {
            "apiVersion": constants.API_VERSION,
            "kind": constants.KIND,
            "metadata": metadata,
            "spec": spec,
        }

    def apply(self, manifest: Manifest) -> None:
        """`kubectl apply` it."""
        self.cluster.apply(manifest)

    def patch(self, name: str, spec: dict[str, Any]) -> None:
        """Change fields of the spec."""
        done = self.cluster.kubectl(
            "patch", "hfed", name, "--type=merge", "-p", json.dumps({"spec": spec})
        )
        assert done.returncode == 0, done.stderr

    def status(self, name: str) -> dict[str, Any]:
        """Its status; empty while there is none."""
        found: dict[str, Any] = self.cluster.get("hfed", name).get("status") or {}
        return found

    def condition(self, name: str, type_: str) -> dict[str, Any]:
        """One condition; empty while there is none."""
        conditions = self.status(name).get("conditions") or []
        return next((c for c in conditions if c["type"] == type_), {})

    def wait(self, name: str, is_so: Any, what: str) -> dict[str, Any]:
        """The status once it is so; a story of what happened when that takes too long."""
        deadline = time.monotonic() + LONG_SECONDS
        while not is_so(status := self.status(name)):
            assert time.monotonic() < deadline, f"{name}: {what}: {self.story(name)}"
            time.sleep(POLL_SECONDS)
        return status

    def finish(self, name: str) -> dict[str, Any]:
        """Wait for a good end; a bad one fails the test with its reason."""
        status = self.wait(name, lambda s: s.get("phase") in ENDS, "waited for its end")
        assert status["phase"] == "Succeeded", self.story(name)
        return status

    def delete(self, name: str) -> None:
        """Delete it and wait until nothing of it is left."""
        self.cluster.kubectl("delete", "hfed", name, "--ignore-not-found")
        self.cluster.until(lambda: not self.children(name), f"{name} leaves nothing behind")

    def children(self, name: str) -> list[str]:
        """Jobs and Pods that bear its label."""
        label = f"{constants.LABEL_FEDERATION}={name}"
        found = [*self.cluster.list("job", label), *self.cluster.list("pod", label)]
        return [thing["metadata"]["name"] for thing in found]

    def pods(self, name: str, **labels: str) -> list[Manifest]:
        """Its Pods, by further labels such as role or round."""
        chosen = {"federation": name, **labels}
        selector = ",".join(f"{constants.GROUP}/{k}={v}" for k, v in chosen.items())
        return self.cluster.list("pod", selector)

    def jobs(self, name: str) -> list[Manifest]:
        """Its Jobs."""
        return self.cluster.list("job", f"{constants.LABEL_FEDERATION}={name}")

    def settle(self) -> None:
        """Wait until the cluster answers and the operator is ready, as after a fault."""
        self.cluster.settle(OPERATOR)

    def scale(self, replicas: int) -> None:
        """Let the operator rest, work again, or work with a second one that waits."""
        self.cluster.scale(OPERATOR, replicas)

    def story(self, name: str) -> str:
        """Everything that tells why a federation is where it is."""
        parts = [
            ("get", "hfed,jobs,pods", "-o", "wide"),
            ("get", "hfed", name, "-o", "jsonpath={.status.conditions}"),
            ("get", "events", "--sort-by=.lastTimestamp"),
            ("logs", f"deployment/{OPERATOR}", "--tail=40", "--all-containers"),
            ("logs", "-l", f"{constants.LABEL_FEDERATION}={name}", "--tail=15", "--prefix"),
        ]
        output = [self.cluster.kubectl(*part) for part in parts]
        return "\n\n".join(f"{t.stdout[-6000:]}{t.stderr[-500:]}" for t in output)

    # -- the store --------------------------------------------------------------------------------

    def secret(self, name: str) -> dict[str, str]:
        """The decoded values of a Secret."""
        data = self.cluster.get("secret", name).get("data") or {}
        return {key: base64.b64decode(value).decode() for key, value in data.items()}

    @cached_property
    def endpoint(self) -> str:
        """MinIO as this machine reaches it."""
        address = self.cluster.get("service", f"{RELEASE}-minio")["spec"]["clusterIP"]
        return f"http://{address}:9000"

    def store(self, prefix: str) -> S3Store:
        """The bucket as its owner sees it."""
        root = self.secret(f"{RELEASE}-minio-root")
        who = Credentials(
            access_key=root["MINIO_ROOT_USER"], secret_key=root["MINIO_ROOT_PASSWORD"]
        )
        s3 = S3(endpoint=self.endpoint, bucket=BUCKET, prefix=prefix)
        return S3Store(s3, credentials=who)

    def clear(self, name: str) -> None:
        """As if it had never been: the federation is gone, and its prefix is empty."""
        self.delete(name)
        self.wipe(name)

    def adapter(self, name: str) -> dict[str, bytes]:
        """The newest global adapter as the bucket has it."""
        folder = bucket_keys.global_folder(name, int(self.status(name)["adapter"]["round"]))
        with closing(self.store(name)) as store:
            return {file: store.get(f"{folder}{file}") for file in FILES}

    def wipe(self, prefix: str) -> None:
        """Remove what a federation left, so that the next of its name begins anew."""
        root = self.secret(f"{RELEASE}-minio-root")
        client = boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=root["MINIO_ROOT_USER"],
            aws_secret_access_key=root["MINIO_ROOT_PASSWORD"],
        )
        with closing(self.store(prefix)) as store:
            for key in list(store.list(f"{prefix}/")):
                client.delete_object(Bucket=BUCKET, Key=key)

    # -- the operator -----------------------------------------------------------------------------

    def operators(self) -> list[str]:
        """Names of the operator's Pods."""
        pods = self.cluster.list("pod", "app.kubernetes.io/component=operator")
        return [pod["metadata"]["name"] for pod in pods]

    def metrics(self) -> str:
        """What the operator's Service answers."""
        path = f"/api/v1/namespaces/{NAMESPACE}/services/{OPERATOR}:metrics/proxy/metrics"
        return self.cluster.kubectl("get", "--raw", path).stdout


def values(federations: tuple[str, ...], **more: Any) -> dict[str, Any]:
    """Values of the chart for a cluster that can pull nothing.

    NetworkPolicies and consent are as the chart has them by default; the admission policy, which
    is an option, is on, so that every federation of these tests shows that it passes.
    """
    local = {"repository": "hansa-minio", "tag": _tag(), "pullPolicy": "Never"}
    users = [_users(name) for name in federations]
    minio = {"enabled": True, "image": local, "mcImage": local, "federations": users}
    return {
        "images": {"pullPolicy": "Never"},
        "settings": SETTINGS,
        "minio": minio,
        "admissionPolicy": {"enabled": True},
        **more,
    }


def _users(federation: str) -> dict[str, Any]:
    if federation in MASKED:
        return {"name": federation, "environments": list(MASKED[federation]), "secure": True}
    elsewhere = ELSEWHERE.get(federation, ())
    here = [world for world in WORLDS if world not in elsewhere]
    return {"name": federation, "environments": here, "members": list(elsewhere)}


def _tag() -> str:
    from hansa.version import __version__

    return __version__


def helm(cluster: Cluster, *args: str, given: dict[str, Any] | None = None) -> str:
    """Run helm on the cluster; what it said, or a failed test."""
    stdin = json.dumps(given).encode() if given is not None else b""
    more = ("--values", "-") if given is not None else ()
    done = cluster.script("helm", "--namespace", NAMESPACE, *args, *more, stdin=stdin)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def install(cluster: Cluster, federations: tuple[str, ...], **more: Any) -> Hansa:
    """Install the chart, or upgrade it, and wait until the operator is ready."""
    chart = str(ROOT / "charts" / "hansa")
    arguments = ("upgrade", "--install", RELEASE, chart, "--create-namespace", "--wait")
    seconds = f"{2 * PATIENCE_SECONDS:.0f}s"  # many users are made on a busy machine
    more_arguments = ("--timeout", seconds, "--take-ownership")
    helm(cluster, *arguments, *more_arguments, given=values(federations, **more))
    own = Cluster(state=cluster.state, namespace=NAMESPACE)
    hansa = Hansa(cluster=own, federations=federations)
    # A cluster that ran before has Pods of an older image of the same tag.
    own.kubectl("rollout", "restart", f"deployment/{OPERATOR}")
    hansa.settle()
    return hansa


def build_images(folder: Path | None = None) -> None:
    """Build all images from this environment and load them; the second time takes seconds.

    HANSA_IMAGES_LOADED says that the cluster has those that are wanted, HANSA_IMAGES_BUILT that
    they are built, as `tools/test` does beside the other tests.
    """
    if os.environ.get("HANSA_IMAGES_LOADED"):
        return
    stores = ["--minio", "--seaweedfs"]
    script = [str(ROOT / "tools" / "images"), "--from-environment", *stores, "--load"]
    if os.environ.get("HANSA_IMAGES_BUILT"):
        script.append("--built")
    environment = {**os.environ, **({"HANSA_CLUSTER": str(folder)} if folder else {})}
    done = subprocess.run(script, env=environment, capture_output=True, text=True, timeout=3000)
    assert done.returncode == 0, done.stderr
