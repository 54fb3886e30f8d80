"""Jobs that cannot start fail at once and say why; Jobs that only have to wait, wait."""

import json
import shlex
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.cluster.bad import MAZE, container, make, pod
from tests.cluster.installed import Hansa
from tests.cluster.kube import Cluster, Manifest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

NAMESPACE = "hansa-waits"
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
GPUS = 8
MANY_GPUS = 100
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
MISSING_KEYS = {"name": "no-such-keys"}


def in_namespace(hansa: Hansa, name: str, labels: dict[str, str]) -> Hansa:
    """The installed operator, seen from a new namespace."""
    own = replace(hansa, cluster=Cluster(state=hansa.cluster.state, namespace=name))
    metadata = {"name": name, "labels": labels}
    own.cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    own.cluster.until(lambda: own.cluster.get("serviceaccount", "default"), "a ServiceAccount")
    return own


@pytest.fixture(scope="module")
def silo(hansa: Hansa) -> Iterator[Hansa]:
    """A namespace as strict as Pod Security can be; all Pods of Hansa have to be good enough."""
    own = in_namespace(hansa, NAMESPACE, RESTRICTED)
    yield own
    own.cluster.kubectl("delete", "namespace", NAMESPACE)


# -- never ----------------------------------------------------------------------------------------


def mounted(**source: Any) -> dict[str, Any]:
    """An environment that mounts a volume of this kind."""
    client = {"name": "client", "volumeMounts": [{"name": "mine", "mountPath": "/mine"}]}
    return pod(volumes=[{"name": "mine", **source}], containers=[client])


NEVER: dict[str, tuple[dict[str, Any], str]] = {
    "image": (
        container(image="no-such-image:1", imagePullPolicy="Never"),
        "image 'no-such-image:1' of container client cannot be pulled",
    ),
    "image-name": (container(image="No Image"), "image 'No Image' of container client"),
    "keys": (
        {"environments": [{**MAZE, "credentialsSecret": MISSING_KEYS}]},
        'secret "no-such-keys" not found',
    ),
    "volume-secret": (
        {
            "environments": [
                {
                    **mounted(secret={"secretName": "no-such-keys"})["environments"][0],
                    "credentialsSecret": MISSING_KEYS,
                }
            ]
        },
        'secret "no-such-keys" not found',
    ),
    "volume-configmap": (
        mounted(configMap={"name": "no-such-map"}),
        'configmap "no-such-map" not found',
    ),
    "volume-claim": (
        mounted(persistentVolumeClaim={"claimName": "no-such-claim"}),
        'persistentvolumeclaim "no-such-claim" not found',
    ),
    "node-selector": (
        pod(nodeSelector={"no-such": "label"}),
        "no node fits its nodeSelector, affinity and tolerations",
    ),
    "priority-class": (
        pod(priorityClassName="no-such-class"),
        "no PriorityClass with name no-such-class was found",
    ),
    "runtime-class": (pod(runtimeClassName="no-such-runtime"), "no-such-runtime"),
}


@pytest.fixture(scope="module")
def hopeless(silo: Hansa) -> Hansa:
    """One federation for each thing that is missing; their start timeout is an hour."""
    patient = {"startTimeoutSeconds": 3600, "retries": 3}
    silo.cluster.apply(
        *(make(name, participation=patient, **fields) for name, (fields, _) in NEVER.items())
    )
    return silo


@pytest.mark.parametrize("name", NEVER)
def test_what_is_missing_is_named_at_once(hopeless: Hansa, name: str) -> None:
    status = hopeless.wait(name, lambda s: s.get("phase") == "Failed", "fails without a timeout")
    degraded = hopeless.condition(name, "Degraded")
    assert degraded["reason"] == "EnvironmentFailed"
    assert degraded["message"].startswith("maze: ")
    assert NEVER[name][1] in degraded["message"]
    assert status["environments"][0]["attempt"] == 1, "trying again cannot help"
    hopeless.cluster.until(lambda: not hopeless.children(name), "its Job is gone: none may start")


# -- not yet --------------------------------------------------------------------------------------


def gpus(count: int) -> dict[str, Any]:
    """An environment that asks for so many GPUs."""
    return container(resources={"limits": {"nvidia.com/gpu": count}})


def message(hansa: Hansa, name: str) -> str:
    """What the status says about the environment."""
    environments = hansa.status(name).get("environments") or [{}]
    return str(environments[0].get("message", ""))


@pytest.fixture
def many_gpus(silo: Hansa) -> Iterator[None]:
    """More GPUs come, and go again."""
    yield
    silo.cluster.script("gpus", str(GPUS))


def test_a_pod_waits_for_a_gpu_and_goes_on_when_one_comes(silo: Hansa, many_gpus: None) -> None:
    silo.apply(make("patient", **gpus(MANY_GPUS)))
    hasty = {"startTimeoutSeconds": 15, "retries": 0}
    silo.apply(make("hasty", participation=hasty, **gpus(MANY_GPUS)))
    silo.cluster.until(lambda: "Insufficient nvidia.com/gpu" in message(silo, "patient"), "waits")
    silo.wait("hasty", lambda s: s.get("phase") == "Failed", "gives the wait up")
    condition = silo.condition("hasty", "Degraded")["message"]
    assert condition.startswith("maze: did not start within 15 s: waits for a node")
    assert "Insufficient nvidia.com/gpu" in condition
    assert silo.status("patient")["environments"][0]["state"] == "Starting"
    assert silo.cluster.script("gpus", str(MANY_GPUS)).returncode == 0
    silo.cluster.until(lambda: "nodeName" in silo.pods("patient")[0]["spec"], "gets its GPUs")
    silo.wait("patient", lambda s: s["current"].get("startedAt"), "its round's clock runs")
    silo.delete("patient")


@pytest.mark.attack(
    by="the author of a Federation",
    does=(
        "names another party's Secret as `credentialsSecret` or `caSecret`, to mount it in a "
        "sidecar"
    ),
    result="no container starts before the Secret's owner consents",
)
def test_a_federation_goes_on_by_itself_once_its_secret_consents(silo: Hansa) -> None:
    keys = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any"}
    metadata = {"name": "silent", "namespace": NAMESPACE}
    silo.cluster.apply(
        {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": keys}
    )
    named = [{**MAZE, "credentialsSecret": {"name": "silent"}}]
    silo.apply(make("consent", environments=named))

    def degraded() -> dict[str, Any]:
        return silo.condition("consent", "Degraded")

    silo.cluster.until(lambda: degraded().get("reason") == "ConsentMissing", "asks for consent")
    line = degraded()["message"].partition("its owner consents by: ")[2].partition("; it ")[0]
    assert line == (
        "kubectl -n hansa-waits patch secret silent --type=merge -p "
        """'{"stringData":{"hansa.consent.maze":"yes"}}'"""
    )
    given = silo.cluster.kubectl(*shlex.split(line)[1:])
    assert given.returncode == 0, given.stderr
    status = silo.wait("consent", lambda s: s["current"].get("startedAt"), "continues by itself")
    assert status["environments"][0]["attempt"] == 1
    silo.delete("consent")


def test_a_quota_is_waited_for(hansa: Hansa) -> None:
    silo = in_namespace(hansa, f"{NAMESPACE}-quota", RESTRICTED)
    silo.cluster.apply(quota("pods", 0), quota("count/jobs.batch", 1))
    asked = [{**MAZE, "name": name} for name in ("one", "two")]
    silo.apply(make("cramped", environments=asked))

    def messages() -> str:
        return "; ".join(e.get("message", "") for e in silo.status("cramped")["environments"])

    silo.wait("cramped", lambda s: s.get("round"), "opens its round")
    silo.cluster.until(lambda: messages().count("exceeded quota") == 2, "tells of both quotas")
    assert silo.status("cramped")["phase"] == "Running"
    silo.cluster.kubectl("delete", "quota", "--all")
    silo.cluster.until(lambda: len(silo.pods("cramped")) == 2, "both Pods are made")
    silo.cluster.kubectl("delete", "namespace", silo.cluster.namespace, "--wait=false")


def quota(what: str, count: int) -> Manifest:
    """So many of these may be in the namespace."""
    name = what.replace("/", "-")
    spec = {"hard": {what: str(count)}}
    kind = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}}
    return {**kind, "spec": spec}


def test_a_queued_job_runs_no_clock_until_the_queue_lets_it_go(silo: Hansa) -> None:
    queued = [{**MAZE, "queueName": "team"}]
    brief = {"startTimeoutSeconds": 2, "roundTimeoutSeconds": 2, "retries": 0}
    silo.apply(make("queued", environments=queued, participation=brief))
    silo.wait("queued", lambda s: is_queued(s), "its Job is queued")
    time.sleep(2 * brief["startTimeoutSeconds"])
    assert is_queued(silo.status("queued"))
    (job,) = silo.jobs("queued")
    assert job["spec"]["suspend"] is True
    assert job["metadata"]["labels"][QUEUE_LABEL] == "team"
    assert message(silo, "queued") == "waits in queue team"
    assert not silo.pods("queued")

    let_go = json.dumps({"spec": {"suspend": False}})  # as Kueue does
    silo.cluster.kubectl("patch", "job", job["metadata"]["name"], "--type=merge", "-p", let_go)
    status = silo.wait("queued", lambda s: s["phase"] == "Failed", "the clocks run now")
    assert "within 2 s" in status["failed"]["message"]


def is_queued(status: dict[str, Any]) -> bool:
    """Whether the first attempt waits in its queue."""
    environment = (status.get("environments") or [{}])[0]
    return (environment.get("state"), environment.get("attempt")) == ("Queued", 1)
