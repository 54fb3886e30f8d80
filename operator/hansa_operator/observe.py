"""Jobs and Pods as Kubernetes shows them, turned into the Jobs that a plan sees."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from hansa.api import constants
from hansa.api.jobs import AnyReport, FailureReason, ObservedJob
from hansa.api.reports import decode_report
from hansa.core import logs
from hansa.core.exits import Exit, get_facts
from hansa.kubernetes.client import Data
from hansa.kubernetes.state import get_status, parse_time
from hansa_operator.jobs import CONTAINERS, FINAL, QUEUE_LABEL
from hansa_operator.podstate import (
    Delay,
    clip,
    explain_by_events,
    explain_delay,
    find_true_condition,
)

OWN_WORDS = frozenset(
    (*FINAL, Exit.TOO_FEW_UPDATES, Exit.WORLD_BROKEN, Exit.TRAINING_DIVERGED, Exit.MASK_AGAIN)
)
"""Exits whose last log line is a sentence of Hansa's; a crash's could quote a trajectory."""
SIGNALS = 128
QUIET_REASONS = frozenset({"ContainerCreating", "PodInitializing"})
"""What a container waits for while nobody says what keeps it."""
_NO_POD = "no Pod was made yet; `kubectl describe job` says why (quota, admission, ServiceAccount)"


def observe_all(
    jobs: Iterable[Data],
    pods: Iterable[Data],
    events: Iterable[Data] = (),
    cluster_autoscaler: bool = False,
) -> list[ObservedJob]:
    """All Jobs of Hansa's making, by name; Pods and events are grouped by their owner."""
    by_job: dict[str, list[Data]] = {}
    for pod in pods:
        by_job.setdefault(find_controller(pod), []).append(pod)
    all_events = list(events)
    observed = [
        observe(job, by_job.get(_meta(job, "uid"), []), all_events, cluster_autoscaler)
        for job in jobs
    ]
    return sorted((job for job in observed if job), key=lambda job: job.name)


def observe(
    job: Data,
    pods: Sequence[Data],
    events: Iterable[Data] = (),
    cluster_autoscaler: bool = False,
) -> ObservedJob | None:
    """A Job with its Pods as a plan sees it; nothing when its labels are not Hansa's.

    A container's exit 0 counts at once. A failure counts when the Job controller has judged it,
    since only that knows whether a disrupted Pod is replaced.
    """
    who = _read_identity(job)
    if who is None:
        return None
    ordered = sorted(pods, key=lambda pod: (_meta(pod, "creationTimestamp"), _meta(pod, "name")))
    return _JobView(
        make=partial(ObservedJob, **who),
        job=job,
        pods=ordered,
        container=CONTAINERS[who["role"]],
        events=list(events),
        cluster_autoscaler=cluster_autoscaler,
    ).observe()


def is_lingering(job: Data, observed: ObservedJob) -> bool:
    """Whether a Job counts as failed although Kubernetes still tries to run it.

    It is deleted once the status is written, since it could still start unnoticed.
    """
    return observed.state == "failed" and not find_true_condition(
        job, "Failed", "FailureTarget", "Complete"
    )


def has_ended(job: Data) -> bool:
    """Whether the Job controller has judged a Job, one way or the other."""
    return bool(
        find_true_condition(job, "Complete", "SuccessCriteriaMet", "Failed", "FailureTarget")
    )


def find_controller(thing: Data) -> str:
    """UID of what owns and controls an object: a Job's federation, or a Pod's Job."""
    owners = (thing.get("metadata") or {}).get("ownerReferences") or ()
    return next((str(o.get("uid")) for o in owners if o.get("controller")), "")


def list_stuck(
    jobs: Iterable[Data], pods: Iterable[Data], now: datetime, patience_seconds: float
) -> list[Data]:
    """Jobs without a Pod and Pods that a node prepares for too long: only events say why."""
    pods = list(pods)
    with_pod = {find_controller(pod) for pod in pods}
    lonely = [job for job in jobs if not has_ended(job) and _meta(job, "uid") not in with_pod]
    prepared = [pod for pod in pods if _is_prepared(pod)]
    since = now - timedelta(seconds=patience_seconds)
    return [thing for thing in (*lonely, *prepared) if _find_creation(thing, None) <= since]


def _is_prepared(pod: Data) -> bool:
    """Whether a Pod has a node and no container that ran or said what it waits for."""
    if get_status(pod).get("phase") != "Pending" or not (pod.get("spec") or {}).get("nodeName"):
        return False
    states = [c.get("state") or {} for c in get_status(pod).get("containerStatuses") or ()]
    return all((s.get("waiting") or {}).get("reason") in QUIET_REASONS for s in states)


def _read_identity(job: Data) -> dict[str, Any] | None:
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


@dataclass(frozen=True, kw_only=True)
class _JobView:
    """One Job with its Pods and all events, from which each answer is read."""

    make: Callable[..., ObservedJob]
    """Fills in who the Job is."""
    job: Data
    pods: Sequence[Data]
    """Oldest first."""
    container: str
    """Name of the container of ours."""
    events: Sequence[Data]
    cluster_autoscaler: bool

    def observe(self) -> ObservedJob:
        job, pod = self.job, self.pods[-1] if self.pods else None
        created = _find_creation(job, pod)
        started = _find_first_start(self.pods, self.container)
        ended = {
            "created_at": created,
            "started_at": started or parse_time(get_status(job).get("startTime")),
        }
        done = next((p for p in self.pods if _find_exit_code(p, self.container) == 0), None)
        if done or find_true_condition(job, "Complete", "SuccessCriteriaMet"):
            return self.make(state="succeeded", report=self._find_report(done), **ended)
        verdict = find_true_condition(job, "Failed", "FailureTarget")
        if verdict:
            return self.make(state="failed", **ended, **self._collect_failure(verdict, pod))
        if (job.get("spec") or {}).get("suspend") or find_true_condition(job, "Suspended"):
            queue = ((job.get("metadata") or {}).get("labels") or {}).get(QUEUE_LABEL)
            why = f"waits in queue {queue}" if queue else "suspended by somebody"
            return self.make(state="queued", created_at=created, message=why)
        if pod is None:
            return self._show_delay(
                explain_by_events(_select_events(self.events, job)) or Delay(_NO_POD), created
            )
        since = _find_disruption_time(pod)
        if since:
            # The wait for another Pod is bounded from here: on a dead node it would never end.
            why = f"{_describe_disruption(pod)}; Kubernetes makes another once it has ended"
            return self.make(state="starting", created_at=since, reason="Disrupted", message=why)
        if _find_state(pod, self.container, "running") or _find_state(
            pod, self.container, "terminated"
        ):
            return self.make(state="running", created_at=created, started_at=started)
        node = (pod.get("spec") or {}).get("nodeName")
        spare = f"its Pod is being prepared on node {node}" if node else "its Pod waits for a node"
        about = _select_events(self.events, pod)
        why_not = explain_delay(pod, about, cluster_autoscaler=self.cluster_autoscaler, spare=spare)
        return self._show_delay(why_not, created)

    def _show_delay(self, delay_: Delay, created: datetime) -> ObservedJob:
        message = clip(delay_.why)
        if delay_.forever:
            return self.make(
                state="failed", created_at=created, reason="CannotStart", message=message
            )
        return self.make(
            state="starting", created_at=created, reason=delay_.reason, message=message
        )

    def _find_report(self, pod: Data | None) -> AnyReport | None:
        message = (_find_state(pod or {}, self.container, "terminated") or {}).get("message")
        return decode_report(str(message).encode(errors="replace")) if message else None

    # -- failures ---------------------------------------------------------------------------------

    def _collect_failure(self, verdict: Data, pod: Data | None) -> dict[str, Any]:
        code = _find_exit_code(pod or {}, self.container)
        if code is None and verdict.get("reason") == "PodFailurePolicy":
            code = int(Exit.PERMANENT)  # as final as the others that the policy fails a Job for
        reason, message = self._explain_failure(verdict, pod, code)
        return {
            "exit_code": None if reason in ("Disrupted", "CannotStart") else code,
            "reason": reason,
            "message": clip(message),
            "report": self._find_report(pod),
        }

    def _explain_failure(
        self, verdict: Data, pod: Data | None, code: int | None
    ) -> tuple[FailureReason, str]:
        if verdict.get("reason") == "DeadlineExceeded":
            seconds = (self.job.get("spec") or {}).get("activeDeadlineSeconds")
            return "DeadlineExceeded", f"did not finish within {seconds} s of its start"
        if code == Exit.PERMANENT:
            return "", self._find_own_sentence(pod) or get_facts(code).help
        if pod is None:
            return "Disrupted", "its Pod is gone: it was deleted before its exit code was read"
        if _find_disruption_time(pod):
            return "Disrupted", _describe_disruption(pod)
        return self._explain_container(pod, code)

    def _explain_container(self, pod: Data, code: int | None) -> tuple[FailureReason, str]:
        ended = _find_state(pod, self.container, "terminated") or {}
        if code is None:
            both = [get_status(pod).get("reason"), get_status(pod).get("message")]
            said = ": ".join(clip(word) for word in both if word)
            return "", f"its Pod failed before its container ran ({said or 'no reason was given'})"
        if ended.get("reason") in ("StartError", "ContainerCannotRun"):
            words = clip(ended.get("message"))
            return "CannotStart", f"container {self.container} cannot be started ({words})"
        if ended.get("reason") == "OOMKilled":
            return "", f"ran out of memory ({_describe_memory(pod, self.container)}): raise it"
        if get_status(pod).get("reason") == "Evicted":
            return "", f"its Pod was evicted ({clip(get_status(pod).get('message'))})"
        if code > SIGNALS:
            return "", f"its container was killed by signal {code - SIGNALS}"
        words = self._find_own_sentence(pod) if code in OWN_WORDS else ""
        return "", words or get_facts(code).help

    def _find_own_sentence(self, pod: Data | None) -> str:
        """The sentence that the program stopped with, from the tail of its log."""
        ended = _find_state(pod or {}, self.container, "terminated") or {}
        return logs.find_stop_message(str(ended.get("message") or ""))


def _describe_memory(pod: Data, container: str) -> str:
    for each in (pod.get("spec") or {}).get("containers") or ():
        limits = (each.get("resources") or {}).get("limits") or {}
        if each.get("name") == container and "memory" in limits:
            return f"resources.limits.memory of container {container} is {limits['memory']}"
    return "its node had no more"


def _find_disruption_time(pod: Data) -> datetime | None:
    """Since when a Pod is being taken away: by an eviction, a preemption, a lost node, a person."""
    target = find_true_condition(pod, "DisruptionTarget")
    if target:
        return parse_time(target.get("lastTransitionTime")) or _find_creation(pod, None)
    return parse_time(_meta(pod, "deletionTimestamp"))


def _describe_disruption(pod: Data) -> str:
    target = find_true_condition(pod, "DisruptionTarget")
    if target is None:
        return "its Pod was deleted"
    return f"its Pod was disrupted ({clip(target.get('reason')) or 'no reason was given'})"


# -- reading objects ------------------------------------------------------------------------------


def _meta(thing: Data, name: str) -> str:
    return str((thing.get("metadata") or {}).get(name) or "")


def _select_events(events: Iterable[Data], thing: Data) -> list[Data]:
    uid = _meta(thing, "uid")
    return [e for e in events if uid and (e.get("involvedObject") or {}).get("uid") == uid]


def _find_creation(job: Data, pod: Data | None) -> datetime:
    """When the wait for a start began: with the newest Pod, or when a queue let the Job go."""
    moments = (
        _meta(pod, "creationTimestamp") if pod else None,
        get_status(job).get("startTime"),
        _meta(job, "creationTimestamp"),
    )
    known = [moment for moment in (parse_time(value) for value in moments) if moment]
    return known[0] if known else datetime.fromtimestamp(0, UTC)


def _find_state(pod: Data, container: str, kind: str) -> Data | None:
    for each in get_status(pod).get("containerStatuses") or ():
        if each.get("name") == container:
            state: Data | None = (each.get("state") or {}).get(kind)
            return state
    return None


def _find_exit_code(pod: Data, container: str) -> int | None:
    code = (_find_state(pod, container, "terminated") or {}).get("exitCode")
    return code if isinstance(code, int) else None


def _find_first_start(pods: Iterable[Data], container: str) -> datetime | None:
    starts = [
        parse_time((_find_state(pod, container, kind) or {}).get("startedAt"))
        for pod in pods
        for kind in ("running", "terminated")
    ]
    return min((start for start in starts if start), default=None)
