"""When a tracker has something to be told, what follows from a Job of it, and what people read."""

from datetime import datetime, timedelta
from typing import Any

from hansa.jobs import ObservedJob
from hansa.manifest import fingerprint
from hansa.policy import retry
from hansa.spec import FederationSpec
from hansa.status import Condition, Federation, FederationStatus, set_condition
from hansa.tracking.fields import TrackingStatus

RETRIES = 5
"""Failures with one task before it is left until the next round or another spec."""
PAUSE_SECONDS = 10
"""Before the second try; it doubles with each failure."""
OVER = ("Succeeded", "Failed")


def mark(spec: FederationSpec, status: FederationStatus) -> str:
    """Digest of what a tracker should hold; empty: there is nothing to export yet.

    It changes when a round closes, is undone or evaluated last, when all is over, and with
    spec.tracking; not with every answer, since each change is a Job.
    """
    if spec.tracking is None or not status.history:
        return ""
    document: dict[str, Any] = {
        "tracking": spec.tracking.to_json(),
        "rounds": [[entry.round, entry.outcome] for entry in status.history],
        "evaluated": status.evaluated,
        "over": is_over(status),
    }
    return fingerprint(document)


def is_over(status: FederationStatus) -> bool:
    """Whether nothing happens any more unless a person acts."""
    return status.current is None and status.phase in OVER


def is_pending(federation: Federation) -> bool:
    """Whether a local run waits for its tracker before it ends: for one try, not for a dead one."""
    status, tracking = federation.status, federation.status.tracking
    due = mark(federation.spec, status)
    if not due or federation.spec.suspend:
        return False
    tracking = tracking or TrackingStatus()
    has_failed = tracking.task == due and tracking.failures > 0
    return tracking.exported != due and not has_failed


def after_success(tracking: TrackingStatus, round_: int) -> TrackingStatus:
    """The next Job has a name of its own: each does its work once."""
    done = {"exported": tracking.task, "round": round_, "attempt": tracking.attempt + 1}
    return tracking.model_copy(
        update={**done, "failures": 0, "gave_up": 0, "not_before": None, "message": ""}
    )


def after_failure(
    tracking: TrackingStatus, job: ObservedJob, generation: int, now: datetime
) -> TrackingStatus:
    """The next try after a pause that grows; some failures only another spec can cure."""
    why, again = retry.of_job(job, failures=tracking.failures, retries=RETRIES)
    pause = timedelta(seconds=PAUSE_SECONDS * 2 ** min(tracking.failures, 10))
    return tracking.model_copy(
        update={
            "attempt": tracking.attempt + 1,
            "failures": tracking.failures + 1,
            "gave_up": 0 if again else generation,
            "not_before": now + pause,
            "message": why,
        }
    )


def with_task(tracking: TrackingStatus, due: str) -> TrackingStatus:
    """The one that exports this, under a name that no Job with another task has had."""
    if tracking.task == due:
        return tracking
    is_unused = tracking.task == tracking.exported  # the last one ended, which counted on
    attempt = tracking.attempt if is_unused else tracking.attempt + 1
    update = {"task": due, "attempt": attempt, "failures": 0, "gave_up": 0}
    return tracking.model_copy(update={**update, "not_before": None})


def under_way(tracking: TrackingStatus, job: ObservedJob) -> TrackingStatus:
    """Why it does not start, for people; what the last one failed of stays until one does well."""
    if job.state == "starting" and job.message and (job.reason or not tracking.failures):
        return tracking.model_copy(update={"message": job.message})
    is_well = job.state == "running" and not tracking.failures
    return tracking.model_copy(update={"message": ""}) if is_well else tracking


def with_condition(
    status: FederationStatus, federation: Federation, now: datetime
) -> FederationStatus:
    """The status with the condition Tracked; without spec.tracking it has none."""
    others: list[Condition] = [c for c in status.conditions if c.type != "Tracked"]
    wanted, tracking = federation.spec.tracking, status.tracking or TrackingStatus()
    if wanted is None:
        return status.model_copy(update={"conditions": others})
    behind = " (the federation goes on without it)"
    if tracking.message:
        held: tuple[Any, Any, str] = ("False", "TrackerFailed", f"{tracking.message}{behind}")
    elif tracking.exported:
        held = ("True", "Exported", f"{wanted.to} has the figures up to round {tracking.round}")
    else:
        held = ("False", "NotYet", f"nothing was exported to {wanted.to} yet")
    generation = federation.metadata.generation
    conditions = set_condition(status.conditions, "Tracked", *held, generation=generation, now=now)
    return status.model_copy(update={"conditions": conditions})
