"""NetworkPolicies of a default installation, enforced: whom a Job's Pod reaches, and who it.

Two Pods ask for the same addresses; they differ in the label that the operator gives its Jobs'
Pods. Where no policy is, a Pod with that label reaches everything: the label alone decides nothing.
"""

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.cluster.installed import NAMESPACE, RELEASE, Hansa
from tests.cluster.kube import Cluster, Manifest, address, make_pod

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

LABELS = {"app.kubernetes.io/managed-by": "hansa-operator"}
METADATA = "169.254.169.254"
METADATA_PORT = 8169  # below 1024 the probe would need a right
JOB, PLAIN, SERVER, OTHER = "as-a-job", "as-no-job", "serves-as-a-job", "serves"
STORE = f"http://{RELEASE}-minio.{NAMESPACE}.svc:9000/minio/health/live"


@dataclass(frozen=True, kw_only=True)
class Places:
    """Addresses that Pods ask for."""

    api_server: str = "https://kubernetes.default.svc/version"
    """The API server by its Service."""
    api_server_itself: str
    """The API server behind its Service."""
    metadata: str
    """What a cloud would hand out keys at."""
    job: str
    """A Job's Pod that listens."""
    other: str
    """A Pod that is no Job's, as a store of the user's would be."""
    store: str = STORE
    """The chart's MinIO."""


def labelled(pod: Manifest) -> Manifest:
    """The same Pod with the label of the Jobs' Pods."""
    return {**pod, "metadata": {**pod["metadata"], "labels": LABELS}}


def ask(cluster: Cluster, pod: str, url: str) -> str:
    """What a Pod gets from an address, or why it gets nothing."""
    done = cluster.kubectl("exec", pod, "--", "/program", "get", url)
    return (done.stdout or done.stderr).strip()


def reaches(cluster: Cluster, pod: str, url: str) -> bool:
    """Whether somebody answered, whatever it was."""
    said = ask(cluster, pod, url)
    answered = bool(re.match(r"[1-5]\d\d\b", said))
    refused = "no route to host" in said or "exceeded" in said or "timeout" in said
    assert answered != refused, said
    return answered


@pytest.fixture(scope="module")
def metadata(hansa: Hansa) -> Iterator[None]:
    """A metadata service on the node, as clouds have it."""
    node = hansa.cluster.script("pid", "node").stdout.strip()
    inside = ("nsenter", "--target", node, "--net", "ip", "address")
    subprocess.run([*inside, "add", f"{METADATA}/32", "dev", "lo"], check=True)
    hansa.cluster.apply(
        make_pod("metadata", "serve", f"{METADATA}:{METADATA_PORT}", "keys", hostNetwork=True)
    )
    yield
    hansa.cluster.kubectl("delete", "pod", "metadata", "--now")
    subprocess.run([*inside, "delete", f"{METADATA}/32", "dev", "lo"], check=True)


@pytest.fixture(scope="module")
def places(hansa: Hansa, metadata: None) -> Iterator[Places]:
    """Pods that ask and Pods that listen, all of them running and known to whoever enforces."""
    own = hansa.cluster
    own.apply(
        labelled(make_pod(JOB, "sleep")),
        make_pod(PLAIN, "sleep"),
        labelled(make_pod(SERVER, "serve", ":8080", "a Job")),
        make_pod(OTHER, "serve", ":8080", "no Job"),
    )
    for pod in (JOB, PLAIN, "metadata"):
        address(own, pod)
    node = own.get("pod", JOB)["status"]["hostIP"]
    made = Places(
        api_server_itself=f"https://{node}:6443/version",
        metadata=f"http://{METADATA}:{METADATA_PORT}/",
        job=f"http://{address(own, SERVER)}:8080/",
        other=f"http://{address(own, OTHER)}:8080/",
    )
    own.until(lambda: not reaches(own, JOB, made.metadata), "the policy is enforced")
    own.until(lambda: not reaches(own, PLAIN, made.job), "the other Pod's is, too")
    yield made
    own.kubectl("delete", "pod", JOB, PLAIN, SERVER, OTHER, "--now")


@pytest.mark.attack(
    by="a Pod, a world or an endpoint",
    does="reaches for the API server or a cloud's metadata service from a Job's Pod",
    result="no connection",
)
def test_a_jobs_pod_reaches_neither_the_api_server_nor_a_metadata_service(
    hansa: Hansa, places: Places
) -> None:
    for url in (places.api_server, places.api_server_itself, places.metadata):
        assert reaches(hansa.cluster, PLAIN, url), f"{url} is there for others"
        assert not reaches(hansa.cluster, JOB, url), url


@pytest.mark.attack(
    by="a Pod, a world or an endpoint",
    does="connects to a Job's Pod",
    result="no connection",
)
def test_nobody_reaches_a_jobs_pod(hansa: Hansa, places: Places) -> None:
    assert reaches(hansa.cluster, PLAIN, places.other), "Pods are within reach"
    for pod in (PLAIN, JOB):
        assert not reaches(hansa.cluster, pod, places.job), pod


def test_a_jobs_pod_reaches_a_store_of_the_users_by_address_and_the_charts_by_name(
    hansa: Hansa, places: Places
) -> None:
    assert reaches(hansa.cluster, JOB, places.other)
    assert reaches(hansa.cluster, JOB, places.store)


def test_only_jobs_reach_the_charts_store(hansa: Hansa, places: Places) -> None:
    assert not reaches(hansa.cluster, PLAIN, places.store)


def test_where_the_chart_knows_of_no_federations_a_jobs_pod_is_open(
    cluster: Cluster, places: Places
) -> None:
    """As NOTES.txt says; and so the label alone would not have stopped anything above."""
    cluster.apply(labelled(make_pod(JOB, "sleep")))
    address(cluster, JOB)
    for url in (places.api_server, places.metadata):
        assert reaches(cluster, JOB, url), url
