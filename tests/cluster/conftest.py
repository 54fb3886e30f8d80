"""The cluster that the tests in this folder use: one devkube for all, a namespace for each."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.kube import PROBE, SCRIPT, Cluster


@pytest.fixture(scope="session")
def probe(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The archive of an image with the program that the tests run in Pods."""
    program = tmp_path_factory.mktemp("probe") / "probe"
    subprocess.run(
        ["go", "build", "-trimpath", "-o", str(program), "main.go"],
        cwd=Path(__file__).parent / "probe",
        env={**os.environ, "CGO_ENABLED": "0"},
        check=True,
    )
    made = subprocess.run(
        [str(SCRIPT), "make-image", PROBE, str(program)], check=True, capture_output=True
    )
    return made.stdout


@pytest.fixture(scope="session")
def devkube(probe: bytes) -> Iterator[Cluster]:
    """A running devkube that has the probe's image; one that ran before is left running."""
    cluster = Cluster()
    ran_before = cluster.script("status").returncode == 0
    started = cluster.script("up")
    assert started.returncode == 0, started.stderr
    loaded = cluster.script("load-image", "-", stdin=probe)
    assert loaded.returncode == 0, loaded.stderr
    yield cluster
    if not ran_before:
        assert cluster.script("down").returncode == 0


@pytest.fixture
def cluster(devkube: Cluster, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The cluster, in a namespace that only this test uses."""
    namespace = f"test-{abs(hash(request.node.nodeid)) % 10**8}-{os.getpid()}"
    assert devkube.kubectl("create", "namespace", namespace).returncode == 0
    own = Cluster(state=devkube.state, namespace=namespace)
    own.until(lambda: own.get("serviceaccount", "default"), "the default ServiceAccount")
    yield own
    devkube.kubectl("delete", "namespace", namespace, "--wait=false")
