"""Federations as a cluster would show them, made by the plan itself: the screens' raw material."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from hansa.api.jobs import JobRequest, ObservedJob
from hansa.api.status import Federation
from hansa.kubernetes.federations import FederationView
from hansa.plan.federation import plan
from tests.support.builders import later, make_federation, make_job, with_status

Data = dict[str, Any]
Seen = Callable[[JobRequest], ObservedJob | None]
"""How a Job that the plan asks for shows up; None: not at all."""


def stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def run(federation: Federation, seen: Seen, *, until: float = 0.0) -> Federation:
    """The federation after a few passes of the plan, each Job seen as told."""
    jobs: dict[str, ObservedJob] = {}
    for _ in range(20):
        turn = plan(federation, list(jobs.values()), later(until))
        for name in turn.delete:
            jobs.pop(name, None)
        for request in turn.create:
            found = seen(request)
            if found:
                jobs[request.name] = found
        federation = with_status(federation, turn.status)
    return federation


def look_at(
    federation: Federation, *, jobs: list[Data] | None = None, written: float = 0.0, **more: Any
) -> FederationView:
    """What `hansa status` reads, as if the status had been written so many seconds from now."""
    data = federation.to_json()
    metadata = {**data["metadata"], "creationTimestamp": stamp(later(0))}
    metadata["managedFields"] = [
        {"manager": "hansa", "time": stamp(later(0))},
        {"manager": "hansa-operator", "subresource": "status", "time": stamp(later(written))},
    ]
    if jobs is None:
        lines = data["status"].get("environments", [])
        jobs = [job(line["job"]) for line in lines if line.get("job")]
    return FederationView(federation={**data, "metadata": metadata}, jobs=jobs, **more)


def job(name: str, **status: Any) -> Data:
    return {"metadata": {"name": name, "creationTimestamp": stamp(later(0))}, "status": status}


def half_way(request: JobRequest) -> ObservedJob:
    """One environment answers, one runs, one cannot start yet."""
    states = {"babyai": "succeeded", "maze": "running", "wordle": "starting"}
    state = states[request.environment]
    message = (
        "0/1 nodes are available: 1 Insufficient nvidia.com/gpu" if state == "starting" else ""
    )
    return make_job(request, state, message=message)


def open_round(**participation: Any) -> Federation:
    """A federation whose first round waits for two of three."""
    return run(make_federation(participation=participation), half_way)
