"""The next courier after one that ended, and whether a running one knows what it has to."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from hansa.api.exchange import CourierStatus
from hansa.api.jobs import ObservedJob
from hansa.plan.policy import retry

RETRIES = 5
"""Crashes of couriers, one after another, before a person is asked."""


@dataclass(frozen=True, kw_only=True)
class CourierFailure:
    """What follows from a courier that did not do its work."""

    next: CourierStatus
    """The next one, after a pause that grows."""
    why: str
    """What happened, as a sentence."""
    again: bool
    """Whether another can help; otherwise a person must."""


def under_way(courier: CourierStatus, job: ObservedJob) -> CourierStatus:
    """Why it does not start, for people; what the last one failed of stays until one does well."""
    if job.state == "starting" and job.message and (job.reason or not courier.failures):
        return courier.model_copy(update={"message": job.message})
    is_well = job.state == "running" and not courier.failures
    return courier.model_copy(update={"message": ""}) if is_well else courier


def after_success(courier: CourierStatus) -> CourierStatus:
    """The next one has a name of its own: each does its work once."""
    update = {"attempt": courier.attempt + 1, "task": "", "failures": 0}
    return courier.model_copy(update={**update, "not_before": None, "message": ""})


def after_failure(
    courier: CourierStatus, job: ObservedJob, now: datetime, *, rests_seconds: int = 0
) -> CourierFailure:
    """A dead store is asked without end, since it heals; a crash a few times.

    Where a person must help, the next one comes after `rests_seconds`: nobody tells when they have.
    """
    why, again = retry.of_job(job, failures=courier.failures, retries=RETRIES)
    seconds = retry.delay_seconds(courier.failures + 1)
    pause = timedelta(seconds=seconds if again else max(seconds, rests_seconds))
    update = {
        "attempt": courier.attempt + 1,
        "failures": courier.failures + 1,
        "not_before": now + pause,
        "task": "",
        "message": why,
    }
    return CourierFailure(
        next=courier.model_copy(update=update), why=f"courier: {why}", again=again
    )


def with_task(courier: CourierStatus | None, digest: str) -> CourierStatus:
    """The one that has this task: the present one, or the next where that has another."""
    courier = courier or CourierStatus()
    if courier.task and courier.task != digest:
        courier = courier.model_copy(update={"attempt": courier.attempt + 1})
    return courier.model_copy(update={"task": digest})
