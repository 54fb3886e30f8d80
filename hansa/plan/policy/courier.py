"""The next courier: after success, after a failure, or with a new task."""

from datetime import datetime, timedelta

from hansa.api.exchange import CourierStatus
from hansa.api.jobs import ObservedJob
from hansa.plan.policy import retry

RETRIES = 5
"""Crashes of couriers, one after another, before a person is asked."""


def note_progress(courier: CourierStatus, job: ObservedJob) -> CourierStatus:
    """Why it does not start; the reason of the last failure stays until one runs well."""
    if job.state == "starting" and job.message and (job.reason or not courier.failures):
        return courier.model_copy(update={"message": job.message})
    is_well = job.state == "running" and not courier.failures
    return courier.model_copy(update={"message": ""}) if is_well else courier


def follow_success(courier: CourierStatus) -> CourierStatus:
    """The next courier, under a new name: each works once."""
    update = {"attempt": courier.attempt + 1, "task": "", "failures": 0}
    return courier.model_copy(update={**update, "not_before": None, "message": ""})


def follow_failure(
    courier: CourierStatus, job: ObservedJob, now: datetime, *, rests_seconds: int = 0
) -> tuple[CourierStatus, bool]:
    """The next courier, after a backoff, and whether it can help or a person must act.

    Outages of the store are retried without end, crashes a few times. Where a person has to act,
    the next one starts after `rests_seconds`, in case they have.
    """
    why, again = "its report was lost", True
    if job.state != "succeeded":
        why = retry.explain_failure(job)
        again = retry.judge_failure(job, failures=courier.failures, retries=RETRIES).again
    seconds = retry.delay_seconds(courier.failures + 1)
    pause = timedelta(seconds=seconds if again else max(seconds, rests_seconds))
    update = {
        "attempt": courier.attempt + 1,
        "failures": courier.failures + 1,
        "not_before": now + pause,
        "task": "",
        "message": why,
    }
    return courier.model_copy(update=update), again


def assign_task(courier: CourierStatus | None, digest: str) -> CourierStatus:
    """The courier for this task: the current one, or the next if that has another task."""
    courier = courier or CourierStatus()
    if courier.task and courier.task != digest:
        courier = courier.model_copy(update={"attempt": courier.attempt + 1})
    return courier.model_copy(update={"task": digest})
