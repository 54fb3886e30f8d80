"""The cluster that the tests in this folder use: one devkube for all, a namespace for each."""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from hansa.api import constants
from hansa.kubernetes.client import ApiError
from tests.cluster.cli import Typist
from tests.cluster.installed import Hansa, build_images, install
from tests.cluster.kube import (
    GIVEN,
    SCRIPT,
    Cluster,
    Manifest,
    build_probe,
    probe_image,
    running,
)
from tests.support import small

FEDERATIONS = (
    *("evolves", "disturbed", "rules", "rules2", "other", "joined", "plugin"),
    "masked",
    *("shared", "private"),  # of test_member.py: the exchange, and the silo's own store
)
"""Names of federations that tests may use; each has users, policies and Secrets of its own."""


@pytest.fixture(scope="session")
def probe(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The archive of an image with the program that the tests run in Pods."""
    return probe_image(build_probe(tmp_path_factory.mktemp("probe")))


@pytest.fixture(scope="session")
def devkube(probe: bytes) -> Iterator[Cluster]:
    """A running devkube that has the probe's image; one that ran before is left running.

    HANSA_TEST_KUBECONFIG gives another cluster; tests that need devkube itself then say so.
    """
    cluster = Cluster()
    if GIVEN in os.environ:
        yield cluster
        return
    with running(cluster, probe):
        yield cluster


@pytest.fixture
def cluster(devkube: Cluster, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The cluster, in a namespace that only this test uses."""
    namespace = f"test-{abs(hash(request.node.nodeid)) % 10**8}-{os.getpid()}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    devkube.api.create("/api/v1/namespaces", body)
    own = Cluster(state=devkube.state, namespace=namespace)
    own.until(lambda: own.get("serviceaccount", "default"), "the default ServiceAccount")
    yield own
    with suppress(ApiError):  # the test may have ended the cluster
        devkube.api.delete(f"/api/v1/namespaces/{namespace}")


@pytest.fixture(scope="session")
def hansa(devkube: Cluster) -> Hansa:
    """Hansa installed by its chart, with MinIO, real images and pretended GPUs."""
    if GIVEN not in os.environ:
        build_images(Path(devkube.state) if devkube.state else None)
        assert devkube.script("gpus", "8").returncode == 0
    return install(devkube, FEDERATIONS)


@pytest.fixture(scope="session")
def local_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`hansa run --embedded-store` of the same federation on this machine."""
    folder = tmp_path_factory.mktemp("local")
    with small.Run(small.write_manifest(folder), folder / "run", "--embedded-store") as run:
        run.finish()
    return folder / "run"


@pytest.fixture(scope="session")
def local_adapter(local_run: Path) -> dict[str, bytes]:
    """What that makes."""
    return small.adapter(local_run)


@pytest.fixture(scope="session")
def defined(devkube: Cluster) -> Cluster:
    """The cluster, which knows Hansa's kinds of objects."""
    crds = str(SCRIPT.parents[1] / "crds")
    for args in (
        ("apply", "--server-side", "--force-conflicts", "-f", crds),
        *(
            ("wait", "--for=condition=Established", f"crd/{plural}.{constants.GROUP}")
            for plural in (constants.PLURAL, constants.MEMBER_PLURAL)
        ),
    ):
        done = devkube.kubectl(*args)
        assert done.returncode == 0, done.stderr
    return devkube


@pytest.fixture(scope="module")
def unattended(defined: Cluster) -> Iterator[Cluster]:
    """The cluster while no operator acts, so that a test can write what one would write."""
    chosen = "app.kubernetes.io/name=hansa,app.kubernetes.io/component=operator"
    listed = defined.kubectl("get", "deployments", "-A", "-l", chosen, "-o", "json")
    operators = json.loads(listed.stdout)["items"]
    for each in operators:
        scale(defined, each, 0)
    yield defined
    for each in operators:
        scale(defined, each, each["spec"]["replicas"])


def scale(cluster: Cluster, deployment: Manifest, replicas: int) -> None:
    """Give a Deployment of any namespace so many Pods."""
    meta = deployment["metadata"]
    replace(cluster, namespace=meta["namespace"]).scale(meta["name"], replicas)


@pytest.fixture
def typist(unattended: Cluster, cluster: Cluster, tmp_path: Path) -> Typist:
    """Somebody who types `hansa ...` on a cluster that no operator looks after."""
    kubeconfig = unattended.script("kubeconfig").stdout.strip()
    return Typist(cluster=cluster, kubeconfig=kubeconfig, folder=tmp_path)
