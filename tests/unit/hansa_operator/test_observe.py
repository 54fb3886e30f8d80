"""Jobs and Pods of a cluster as a plan sees them: one row per state that a Pod can wait in."""

import json
from typing import Any

import pytest

from hansa.api.jobs import ObservedJob
from hansa.api.reports import encode_report
from hansa.plan.federation import plan
from hansa_operator.index import slim_pod
from hansa_operator.observe import is_lingering, observe, observe_all
from tests.support.builders import NOW, later, make_report, with_status
from tests.unit.hansa_operator.objects import (
    LATER,
    STARTED,
    advance,
    live_job,
    live_pod,
    make_federation,
    make_request,
    terminated,
    unscheduled,
    waiting,
)

RUNNING = {"running": {"startedAt": STARTED}}
FAILED = ("Failed", "BackoffLimitExceeded")
REPORT = encode_report(make_report(make_request(make_federation()))).decode()
NOT_FOUND = (
    'Back-off pulling image "x:1": ErrImagePull: failed to resolve reference "x:1": not found'
)
TIMED_OUT = 'failed to do request: Head "https://x/v2": dial tcp: i/o timeout'
UNAVAILABLE = "unexpected status from HEAD request: 503 Service Unavailable"
NO_SECRET = 'secret "hansa-maze" not found'
NO_KEY = "couldn't find key AWS_ACCESS_KEY_ID in Secret silos/hansa-maze"
NO_GPU = (
    "0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) didn't match Pod's node "
    "affinity/selector. preemption: 0/2 nodes are available: 2 Preemption is not helpful."
)
NO_MATCH = (
    "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. no new claims "
    "to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful."
)
TAINTED = "0/1 nodes are available: 1 node(s) had untolerated taint {dedicated: other}."
NOT_READY = (
    "0/1 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }."
)
UNNAMED = "0/1 nodes are available: 1 node(s) had untolerated taint(s)."
NO_CLAIM = '0/1 nodes are available: persistentvolumeclaim "models" not found. not found'


def see(job: dict[str, Any], *pods: dict[str, Any], **options: Any) -> Any:
    return observe(job, pods, **options)


WAITS = [
    pytest.param(live_pod(), "its Pod waits for a node", id="brand new"),
    pytest.param(
        live_pod(waiting("ContainerCreating")), "its Pod waits for a node", id="being created"
    ),
    pytest.param(
        live_pod(None, unscheduled(NO_GPU)),
        "waits for a node (0/2 nodes are available: 1 Insufficient nvidia.com/gpu, ",
        id="waits for a GPU",
    ),
    pytest.param(
        live_pod(None, unscheduled(NOT_READY)), "waits for a node (", id="node not ready yet"
    ),
    pytest.param(
        live_pod(None, unscheduled(UNNAMED)), "waits for a node (", id="a taint without its name"
    ),
    pytest.param(
        live_pod(None, unscheduled("no nodes available to schedule pods")),
        "waits for a node (no nodes available",
        id="no node at all",
    ),
    pytest.param(
        live_pod(None, unscheduled("", "SchedulingGated")),
        "its Pod is held back by a scheduling gate",
        id="gated",
    ),
    pytest.param(
        live_pod(waiting("CreateContainerConfigError", "failed to sync secret cache: timed out")),
        "container client cannot be made (failed to sync secret cache",
        id="the kubelet has not seen the Secret yet",
    ),
    pytest.param(
        live_pod(waiting("ErrImagePull", TIMED_OUT)),
        "image 'hansa-client:1' of container client cannot be pulled (ErrImagePull: ",
        id="registry is slow",
    ),
    pytest.param(
        live_pod(waiting("ImagePullBackOff", UNAVAILABLE)),
        "image 'hansa-client:1' of container client cannot be pulled (ImagePullBackOff: ",
        id="registry is down",
    ),
    pytest.param(
        live_pod(waiting("ImagePullBackOff", 'Back-off pulling image "x"')),
        "image 'hansa-client:1' of container client cannot be pulled",
        id="back-off without a cause",
    ),
    pytest.param(
        live_pod(
            waiting("PodInitializing"),
            initContainerStatuses=[
                {"name": "proxy", "image": "p", "state": waiting("CrashLoopBackOff", "back-off")}
            ],
        ),
        "sidecar proxy crashes again and again (back-off)",
        id="sidecar crashes",
    ),
]


@pytest.mark.parametrize("pod, words", WAITS)
def test_a_pod_that_may_still_start_is_starting_and_says_why(pod: Any, words: str) -> None:
    seen = see(live_job(), pod)
    assert (seen.state, seen.reason) == ("starting", "")
    assert seen.message.startswith(words)
    assert seen.created_at == NOW


NEVER = [
    pytest.param(
        live_pod(waiting("ImagePullBackOff", NOT_FOUND)),
        "image 'hansa-client:1' of container client cannot be pulled (ImagePullBackOff: ",
        id="no such image",
    ),
    pytest.param(
        live_pod(waiting("ErrImagePull", "pull access denied")),
        "image 'hansa-client:1' of container client cannot be pulled (ErrImagePull: pull access",
        id="image denied",
    ),
    pytest.param(
        live_pod(waiting("InvalidImageName", "couldn't parse image name")),
        "image 'hansa-client:1' of container client cannot be pulled (InvalidImageName: ",
        id="no image name",
    ),
    pytest.param(
        live_pod(waiting("ErrImageNeverPull", "not present with pull policy of Never")),
        "image 'hansa-client:1' of container client cannot be pulled (ErrImageNeverPull: ",
        id="image not on the node",
    ),
    pytest.param(
        live_pod(waiting("CreateContainerConfigError", NO_SECRET)),
        f"container client cannot be made ({NO_SECRET})",
        id="missing Secret",
    ),
    pytest.param(
        live_pod(waiting("CreateContainerConfigError", NO_KEY)),
        f"container client cannot be made ({NO_KEY})",
        id="missing key of a Secret",
    ),
    pytest.param(
        live_pod(None, unscheduled(NO_MATCH)),
        "no node fits its nodeSelector, affinity and tolerations (0/2 nodes are available: ",
        id="selector that fits no node",
    ),
    pytest.param(
        live_pod(None, unscheduled(TAINTED)),
        "no node fits its nodeSelector, affinity and tolerations (0/1 nodes are available: ",
        id="taint that is not tolerated",
    ),
    pytest.param(
        live_pod(None, unscheduled(NO_CLAIM)),
        "its Pod cannot be scheduled (0/1 nodes are available: persistentvolumeclaim",
        id="missing claim",
    ),
    pytest.param(
        live_pod(
            waiting("PodInitializing"),
            initContainerStatuses=[
                {"name": "proxy", "image": "p:9", "state": waiting("ErrImagePull", "not found")}
            ],
        ),
        "image 'p:9' of container proxy cannot be pulled",
        id="no such image of a sidecar",
    ),
]


@pytest.mark.parametrize("pod, words", NEVER)
def test_a_pod_that_can_never_start_has_failed_with_the_reason(pod: Any, words: str) -> None:
    job = live_job()
    seen = see(job, pod)
    assert (seen.state, seen.reason, seen.exit_code) == ("failed", "CannotStart", None)
    assert seen.message.startswith(words)
    assert is_lingering(job, seen)


def test_with_an_autoscaler_a_selector_is_worth_waiting_for_and_a_missing_claim_is_not() -> None:
    for message, state in [(NO_MATCH, "starting"), (TAINTED, "starting"), (NO_CLAIM, "failed")]:
        pod = live_pod(None, unscheduled(message))
        assert see(live_job(), pod, cluster_autoscaler=True).state == state


def warning(uid: str, reason: str, message: str) -> dict[str, Any]:
    return {
        "type": "Warning",
        "reason": reason,
        "message": message,
        "involvedObject": {"uid": uid},
        "lastTimestamp": STARTED,
    }


POD_UID = live_pod()["metadata"]["uid"]
EVENTS = [
    pytest.param(
        POD_UID,
        "FailedMount",
        'MountVolume.SetUp failed for volume "hansa-ca" : secret "ca" not found',
        "failed",
        id="missing Secret of a volume",
    ),
    pytest.param(
        POD_UID,
        "FailedMount",
        "references non-existent secret key: ca.crt",
        "failed",
        id="missing key of a volume",
    ),
    pytest.param(
        POD_UID, "FailedCreatePodSandBox", "plugin not ready", "starting", id="network is late"
    ),
    pytest.param(
        "job-uid",
        "FailedCreate",
        'violates PodSecurity "restricted:latest"',
        "failed",
        id="Pod Security refuses the Pod",
    ),
    pytest.param(
        "job-uid",
        "FailedCreate",
        'serviceaccount "irsa" not found',
        "failed",
        id="missing ServiceAccount",
    ),
    pytest.param(
        "job-uid", "FailedCreate", "exceeded quota: gpus", "starting", id="quota is spent for now"
    ),
    pytest.param(
        "another", "FailedMount", 'secret "x" not found', "starting", id="another Pod's trouble"
    ),
]


@pytest.mark.parametrize("uid, reason, message, state", EVENTS)
def test_events_tell_what_no_status_shows(uid: str, reason: str, message: str, state: str) -> None:
    pods = [] if uid == "job-uid" else [live_pod(waiting("ContainerCreating"))]
    seen = see(live_job(), *pods, events=[warning(uid, reason, message)])
    assert seen.state == state
    assert seen.message.startswith(f"{reason}: {message}") or uid == "another"


MISSED = (
    'MountVolume.SetUp failed for volume "hansa-consent" : '
    "references non-existent secret key: hansa.fed.maze"
)


def without_consent(*events: dict[str, Any]) -> ObservedJob:
    """What is seen of a Job whose Pod names two Secrets."""
    pod = live_pod(waiting("ContainerCreating"))
    sources = [
        {"secret": {"name": name, "items": [{"key": "hansa.fed.maze", "path": name}]}}
        for name in ("db", "tls")
    ]
    volume = {"name": "hansa-consent", "projected": {"sources": sources}}
    pod["spec"] = {**(pod.get("spec") or {}), "volumes": [volume]}
    pod["metadata"]["namespace"] = "silos"
    return see(live_job(), slim_pod(pod), events=list(events))


def test_a_secret_that_does_not_consent_is_named_with_the_line_that_consents() -> None:
    """The kubelet tries again by itself: the Job waits for it."""
    seen = without_consent(warning(POD_UID, "FailedMount", MISSED))
    patch = """--type=merge -p '{"stringData":{"hansa.fed.maze":"yes"}}'"""
    assert (seen.state, seen.reason) == ("starting", "ConsentMissing")
    assert seen.message == (
        "Secret db or tls does not consent to this use; its owner consents by: "
        f"kubectl -n silos patch secret db {patch} ; kubectl -n silos patch secret tls {patch}"
    )


def test_a_later_word_of_the_kubelet_does_not_hide_a_missing_consent() -> None:
    """Every two minutes it says in general that it waits for volumes."""
    general = "Unable to attach or mount volumes: unmounted volumes=[hansa-consent]: timed out"
    newer = {**warning(POD_UID, "FailedMount", general), "lastTimestamp": "2030-01-01T00:00:00Z"}
    seen = without_consent(warning(POD_UID, "FailedMount", MISSED), newer)
    assert (seen.state, seen.reason) == ("starting", "ConsentMissing")


def test_a_running_container_is_a_running_job() -> None:
    seen = see(live_job(), live_pod(RUNNING, phase="Running"))
    assert (seen.state, seen.started_at, seen.created_at) == ("running", later(30), NOW)


def test_a_job_in_a_queue_is_queued() -> None:
    job = live_job()
    job["spec"]["suspend"] = True
    job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "silo-a"
    seen = see(job)
    assert (seen.state, seen.message) == ("queued", "waits in queue silo-a")


def test_a_job_that_its_queue_just_let_go_starts_no_clock_before_the_controller_did() -> None:
    assert see(live_job("client", ("Suspended", "JobSuspended"))).state == "queued"
    resumed = live_job(startTime=LATER)
    assert see(resumed).created_at == later(600)


def test_a_job_without_a_pod_is_starting_and_says_where_to_look() -> None:
    seen = see(live_job(startTime=None))
    assert (seen.state, seen.created_at) == ("starting", NOW)
    assert "kubectl describe job" in seen.message


def test_pods_go_to_the_jobs_that_own_them() -> None:
    other = live_job("aggregator")
    other["metadata"]["uid"] = "other"
    orphan = {"metadata": {"name": "orphan"}}
    seen = observe_all([live_job(), other], [live_pod(RUNNING), orphan])
    assert [(job.name, job.state) for job in seen] == [
        ("fed-r1-aggregator-a1", "starting"),
        ("fed-r1-maze-a1", "running"),
    ]


@pytest.mark.parametrize("label", ["hansa.dev/role", "hansa.dev/round", "hansa.dev/attempt"])
@pytest.mark.parametrize("value", [None, "", "x"])
def test_a_job_with_labels_of_somebody_else_is_not_ours(label: str, value: str | None) -> None:
    job = live_job()
    job["metadata"]["labels"][label] = value or ""
    assert observe(job, []) is None


@pytest.mark.parametrize("thing", [{}, {"metadata": None, "status": None, "spec": None}])
def test_objects_without_a_status_do_no_harm(thing: dict[str, Any]) -> None:
    assert observe(thing, []) is None
    assert see({**live_job(), "status": None, "spec": None}, thing).state == "starting"


def test_what_is_built_is_observed_as_what_was_asked_for_and_drives_the_plan() -> None:
    federation, request = advance(make_federation(), "client")
    pod = live_pod(terminated(0, json.dumps(json.loads(REPORT))))
    seen = see(live_job(), pod)
    assert seen.name == request.name
    next_ = plan(federation, [seen], NOW)
    assert with_status(federation, next_.status).status.environments[0].state == "Updated"
