"""Jobs and Pods as Kubernetes shows them, turned into the Jobs that a plan sees."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from hansa.api import constants
from hansa.api.jobs import AnyReport, FailureReason, JobState, ObservedJob
from hansa.api.reports import decode_report
from hansa.core import logs
from hansa.core.exits import Exit, facts
from hansa_operator.jobs import CONTAINERS, QUEUE_LABEL
from hansa_operator.podstate import (
    Data,
    Delay,
    clip,
    delay,
    event_delay,
    is_true,
    status,
)

OWN_WORDS = frozenset(
    {
        *(Exit.PERMANENT, Exit.TOO_FEW_UPDATES, Exit.WORLD_BROKEN, Exit.TRAINING_DIVERGED),
        *(Exit.REFUSED, Exit.UNTRUSTED, Exit.PLUGIN_MISSING),
        *(Exit.BUDGET_SPENT, Exit.MASK_AGAIN),
    }
)
"""Exits whose last log line is a sentence of Hansa's; a crash's could quote a trajectory."""
SIGNALS = 128
QUIET_REASONS = frozenset({"ContainerCreating", "PodInitializing"})
"""What a container waits for while nobody says what keeps it."""
_NO_POD = "no Pod was made yet; `kubectl describe job` says why (quota, admission, ServiceAccount)"


@dataclass(frozen=True, kw_only=True)
class _Observation:
    """What the objects of one Job show."""

    state: JobState
    created_at: datetime
    started_at: datetime | None = None
    exit_code: int | None = None
    reason: FailureReason = ""
    message: str = ""
    report: AnyReport | None = None


def observe_all(
    jobs: Iterable[Data],
    pods: Iterable[Data],
    events: Iterable[Data] = (),
    *,
    cluster_autoscaler: bool = False,
) -> list[ObservedJob]:
    """All Jobs of Hansa's making, by name; Pods and events are grouped by their owner."""
    by_job: dict[str, list[Data]] = {}
    for pod in pods:
        by_job.setdefault(controller(pod), []).append(pod)
    all_events = list(events)
    observed = [
        observe(
            job,
            by_job.get(_meta(job, "uid"), []),
            all_events,
            cluster_autoscaler=cluster_autoscaler,
        )
        for job in jobs
    ]
    return sorted((job for job in observed if job), key=lambda job: job.name)


def observe(
    job: Data,
    pods: Sequence[Data],
    events: Iterable[Data] = (),
    *,
    cluster_autoscaler: bool = False,
) -> ObservedJob | None:
    """A Job with its Pods as a plan sees it; nothing when its labels are not Hansa's.

    A container's exit 0 counts at once. A failure counts when the Job controller has judged it,
    since only that knows whether a disrupted Pod is replaced.
    """
    who = _identity(job)
    if who is None:
        return None
    container = CONTAINERS[who["role"]]
    ordered = sorted(pods, key=lambda pod: (_meta(pod, "creationTimestamp"), _meta(pod, "name")))
    observation = _see(job, ordered, container, list(events), cluster_autoscaler)
    return ObservedJob(**who, **vars(observation))


def lingers(job: Data, observed: ObservedJob) -> bool:
    """Whether a Job counts as failed although Kubernetes still tries to run it.

    It is to be deleted once the status has been written, or it may start behind the plan's back.
    """
    return observed.state == "failed" and not is_true(job, "Failed", "FailureTarget", "Complete")


def has_ended(job: Data) -> bool:
    """Whether the Job controller has judged a Job, one way or the other."""
    return bool(is_true(job, "Complete", "SuccessCriteriaMet", "Failed", "FailureTarget"))


def controller(thing: Data) -> str:
    """UID of what owns and controls an object: a Job's federation, or a Pod's Job."""
    owners = (thing.get("metadata") or {}).get("ownerReferences") or ()
    return next((str(o.get("uid")) for o in owners if o.get("controller")), "")


def stuck(
    jobs: Iterable[Data], pods: Iterable[Data], now: datetime, patience_seconds: float
) -> list[Data]:
    """Jobs without a Pod and Pods that a node prepares for too long: only events say why."""
    pods = list(pods)
    with_pod = {controller(pod) for pod in pods}
    lonely = [job for job in jobs if not has_ended(job) and _meta(job, "uid") not in with_pod]
    prepared = [pod for pod in pods if _is_prepared(pod)]
    since = now - timedelta(seconds=patience_seconds)
    return [thing for thing in (*lonely, *prepared) if _created(thing, None) <= since]


def _is_prepared(pod: Data) -> bool:
    """Whether a Pod has a node and no container that ran or said what it waits for."""
    if status(pod).get("phase") != "Pending" or not (pod.get("spec") or {}).get("nodeName"):
        return False
    states = [c.get("state") or {} for c in status(pod).get("containerStatuses") or ()]
    return all((s.get("waiting") or {}).get("reason") in QUIET_REASONS for s in states)


def _identity(job: Data) -> dict[str, Any] | None:
    labels: Mapping[str, str] = (job.get("metadata") or {}).get("labels") or {}
    role = labels.get(constants.LABEL_ROLE)
    numbers = [labels.get(label, "") for label in (constants.LABEL_ROUND, constants.LABEL_ATTEMPT)]
    if role not in CONTAINERS or not all(re.fullmatch(r"[0-9]{1,9}", n) for n in numbers):
        return None
    return {
        "name": _meta(job, "name"),
        "role": role,
        "round": int(numbers[0]),
        "environment": labels.get(constants.LABEL_ENVIRONMENT, ""),
        "attempt": int(numbers[1]),
    }


def _see(
    job: Data, pods: Sequence[Data], container: str, events: list[Data], cluster_autoscaler: bool
) -> _Observation:
    pod = pods[-1] if pods else None
    created, started = _created(job, pod), _first_start(pods, container)
    done = next((p for p in pods if _exit_code(p, container) == 0), None)
    if done or is_true(job, "Complete", "SuccessCriteriaMet"):
        report = _report(done, container) if done else None
        started = started or _time(status(job).get("startTime"))
        return _Observation(
            state="succeeded", created_at=created, started_at=started, report=report
        )
    verdict = is_true(job, "Failed", "FailureTarget")
    if verdict:
        started = started or _time(status(job).get("startTime"))
        return _failed(job, verdict, pod, container, created, started)
    if (job.get("spec") or {}).get("suspend") or is_true(job, "Suspended"):
        queue = ((job.get("metadata") or {}).get("labels") or {}).get(QUEUE_LABEL)
        why = f"waits in queue {queue}" if queue else "suspended by somebody"
        return _Observation(state="queued", created_at=created, message=why)
    if pod is None:
        return _delayed(event_delay(_about(events, job)) or Delay(_NO_POD), created)
    return _active(pod, container, _about(events, pod), cluster_autoscaler, created, started)


def _active(
    pod: Data,
    container: str,
    events: list[Data],
    cluster_autoscaler: bool,
    created: datetime,
    started: datetime | None,
) -> _Observation:
    since = _disrupted_at(pod)
    if since:
        # The wait for another Pod is bounded from here: on a dead node it would never end.
        why = f"{_disruption(pod)}; Kubernetes makes another once it has ended"
        return _Observation(state="starting", created_at=since, reason="Disrupted", message=why)
    if _state(pod, container, "running") or _state(pod, container, "terminated"):
        return _Observation(state="running", created_at=created, started_at=started)
    node = (pod.get("spec") or {}).get("nodeName")
    spare = f"its Pod is being prepared on node {node}" if node else "its Pod waits for a node"
    return _delayed(delay(pod, events, cluster_autoscaler=cluster_autoscaler, spare=spare), created)


def _delayed(delay_: Delay, created: datetime) -> _Observation:
    if delay_.forever:
        return _Observation(
            state="failed", created_at=created, reason="CannotStart", message=clip(delay_.why)
        )
    return _Observation(
        state="starting", created_at=created, reason=delay_.reason, message=clip(delay_.why)
    )


# -- failures -------------------------------------------------------------------------------------


def _failed(
    job: Data,
    verdict: Data,
    pod: Data | None,
    container: str,
    created: datetime,
    started: datetime | None,
) -> _Observation:
    code = _exit_code(pod, container) if pod else None
    if code is None and verdict.get("reason") == "PodFailurePolicy":
        code = int(Exit.PERMANENT)  # as final as the others that the policy fails a Job for
    reason, message = _why(job, verdict, pod, container, code)
    return _Observation(
        state="failed",
        created_at=created,
        started_at=started,
        exit_code=None if reason in ("Disrupted", "CannotStart") else code,
        reason=reason,
        message=clip(message),
        report=_report(pod, container) if pod else None,
    )


def _why(
    job: Data, verdict: Data, pod: Data | None, container: str, code: int | None
) -> tuple[FailureReason, str]:
    if verdict.get("reason") == "DeadlineExceeded":
        seconds = (job.get("spec") or {}).get("activeDeadlineSeconds")
        return "DeadlineExceeded", f"did not finish within {seconds} s of its start"
    if code == Exit.PERMANENT:
        return "", (_own_words(pod, container) if pod else "") or facts(code).help
    if pod is None:
        return "Disrupted", "its Pod is gone: it was deleted before its exit code was read"
    if _disrupted_at(pod):
        return "Disrupted", _disruption(pod)
    return _why_container(pod, container, code)


def _why_container(pod: Data, container: str, code: int | None) -> tuple[FailureReason, str]:
    ended = _state(pod, container, "terminated") or {}
    if code is None:
        both = [status(pod).get("reason"), status(pod).get("message")]
        said = ": ".join(clip(word) for word in both if word)
        return "", f"its Pod failed before its container ran ({said or 'no reason was given'})"
    if ended.get("reason") in ("StartError", "ContainerCannotRun"):
        words = clip(ended.get("message"))
        return "CannotStart", f"container {container} cannot be started ({words})"
    if ended.get("reason") == "OOMKilled":
        return "", f"killed for want of memory ({_memory(pod, container)}): raise it"
    if status(pod).get("reason") == "Evicted":
        return "", f"its Pod was evicted ({clip(status(pod).get('message'))})"
    if code > SIGNALS:
        return "", f"its container was killed by signal {code - SIGNALS}"
    words = _own_words(pod, container) if code in OWN_WORDS else ""
    return "", words or facts(code).help


def _memory(pod: Data, container: str) -> str:
    for each in (pod.get("spec") or {}).get("containers") or ():
        limits = (each.get("resources") or {}).get("limits") or {}
        if each.get("name") == container and "memory" in limits:
            return f"resources.limits.memory of container {container} is {limits['memory']}"
    return "its node had no more"


def _own_words(pod: Data, container: str) -> str:
    """The sentence that the program stopped with, from the tail of its log."""
    ended = _state(pod, container, "terminated") or {}
    return logs.stopped_with(str(ended.get("message") or ""))


def _disrupted_at(pod: Data) -> datetime | None:
    """Since when a Pod is being taken away: by an eviction, a preemption, a lost node, a person."""
    target = is_true(pod, "DisruptionTarget")
    if target:
        return _time(target.get("lastTransitionTime")) or _created(pod, None)
    return _time(_meta(pod, "deletionTimestamp"))


def _disruption(pod: Data) -> str:
    target = is_true(pod, "DisruptionTarget")
    if target is None:
        return "its Pod was deleted"
    return f"its Pod was disrupted ({clip(target.get('reason')) or 'no reason was given'})"


# -- reading objects ------------------------------------------------------------------------------


def _meta(thing: Data, name: str) -> str:
    return str((thing.get("metadata") or {}).get(name) or "")


def _about(events: Iterable[Data], thing: Data) -> list[Data]:
    uid = _meta(thing, "uid")
    return [e for e in events if uid and (e.get("involvedObject") or {}).get("uid") == uid]


def _time(value: Any) -> datetime | None:
    if not value:
        return None
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _created(job: Data, pod: Data | None) -> datetime:
    """When the wait for a start began: with the newest Pod, or when a queue let the Job go."""
    moments = (
        _meta(pod, "creationTimestamp") if pod else None,
        status(job).get("startTime"),
        _meta(job, "creationTimestamp"),
    )
    known = [moment for moment in (_time(value) for value in moments) if moment]
    return known[0] if known else datetime.fromtimestamp(0, UTC)


def _state(pod: Data, container: str, kind: str) -> Data | None:
    for each in status(pod).get("containerStatuses") or ():
        if each.get("name") == container:
            state: Data | None = (each.get("state") or {}).get(kind)
            return state
    return None


def _exit_code(pod: Data, container: str) -> int | None:
    code = (_state(pod, container, "terminated") or {}).get("exitCode")
    return code if isinstance(code, int) else None


def _first_start(pods: Iterable[Data], container: str) -> datetime | None:
    starts = [
        _time((_state(pod, container, kind) or {}).get("startedAt"))
        for pod in pods
        for kind in ("running", "terminated")
    ]
    return min((start for start in starts if start), default=None)


def _report(pod: Data, container: str) -> AnyReport | None:
    message = (_state(pod, container, "terminated") or {}).get("message")
    return decode_report(str(message).encode(errors="replace")) if message else None
