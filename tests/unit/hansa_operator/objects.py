"""Requests, Jobs and Pods in one line, as a plan asks for them and a cluster shows them."""

from typing import Any

from hansa.api.jobs import JobRequest
from hansa.api.spec import FederationSpec, Metadata
from hansa.api.status import Federation
from hansa.plan.federation import plan
from hansa_operator.jobs import build_manifest
from hansa_operator.settings import Settings
from tests.support.builders import NOW, make_job, with_status

UID = "11111111-2222-3333-4444-555555555555"
CREATED = "2026-01-01T00:00:00Z"
STARTED = "2026-01-01T00:00:30Z"
LATER = "2026-01-01T00:10:00Z"


def make_federation(*environments: dict[str, Any], **fields: Any) -> Federation:
    """A federation as the cluster hands it out: with a namespace and a UID."""
    given = environments or ({"name": "maze", "world": "maze"},)
    spec = FederationSpec.model_validate(
        {
            "rounds": 2,
            "storage": {"s3": {"bucket": "bucket", "prefix": "run"}},
            "environments": list(given),
            **fields,
        }
    )
    return Federation(metadata=Metadata(name="fed", namespace="silos", uid=UID), spec=spec)


def advance(federation: Federation, role: str) -> tuple[Federation, JobRequest]:
    """The federation at the moment when its plan asks for the first Job of that role."""
    jobs: dict[str, Any] = {}
    for _ in range(40):
        next_ = plan(federation, list(jobs.values()), NOW)
        federation = with_status(federation, next_.status)
        for request in next_.create:
            if request.role == role:
                return federation, request
            jobs[request.name] = make_job(request, "succeeded")
    raise AssertionError(f"the plan never asks for a Job of role {role}")


def make_request(federation: Federation, role: str = "client") -> JobRequest:
    """The first request of that role."""
    return advance(federation, role)[1]


def build_job(
    federation: Federation, settings: Settings | None = None, role: str = "client"
) -> dict[str, Any]:
    """The Job of the first request of that role."""
    ready, request = advance(federation, role)
    return build_manifest(request, ready, settings or Settings())


def container(job: dict[str, Any]) -> dict[str, Any]:
    """The program's container in a Job."""
    program: dict[str, Any] = job["spec"]["template"]["spec"]["containers"][0]
    return program


def live_job(role: str = "client", *conditions: tuple[str, str], **status: Any) -> dict[str, Any]:
    """A Job as the cluster shows it, with conditions (type, reason) that hold."""
    job = build_job(make_federation(), role=role)
    job["metadata"] |= {"uid": "job-uid", "creationTimestamp": CREATED}
    held = [{"type": t, "status": "True", "reason": r} for t, r in conditions]
    return {**job, "status": {"startTime": CREATED, "conditions": held, **status}}


def live_pod(
    state: dict[str, Any] | None = None,
    *conditions: dict[str, Any],
    name: str = "client",
    created: str = CREATED,
    **status: Any,
) -> dict[str, Any]:
    """A Pod of that Job, its container in this state."""
    limits = {"resources": {"limits": {"memory": "4Gi"}}}
    containers = [{"name": name, "state": state, "image": "hansa-client:1"}] if state else []
    return {
        "metadata": {
            "name": f"pod-{created}",
            "uid": f"pod-uid-{created}",
            "creationTimestamp": created,
            "ownerReferences": [{"uid": "job-uid", "controller": True}],
        },
        "spec": {"containers": [{"name": name, **limits}]},
        "status": {"containerStatuses": containers, "conditions": list(conditions), **status},
    }


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    """A container that waits."""
    return {"waiting": {"reason": reason, "message": message}}


def terminated(code: int, message: str = "", reason: str = "Error") -> dict[str, Any]:
    """A container that has ended."""
    ended = {"exitCode": code, "reason": reason, "message": message, "startedAt": STARTED}
    return {"terminated": ended}


def unscheduled(message: str, reason: str = "Unschedulable") -> dict[str, Any]:
    """The scheduler's word on a Pod that has no node."""
    return {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}


DISRUPTED = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "lastTransitionTime": LATER,
}
