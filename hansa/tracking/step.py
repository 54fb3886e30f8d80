"""spec.tracking as `plan()` sees it: a Job beside the rounds, which nothing waits for.

A part of `plan()`, and as pure: no I/O, no clock, no randomness.
"""

from hansa import names
from hansa.draft import Draft
from hansa.jobs import JobRequest
from hansa.policy import tracking as policy
from hansa.status import FederationStatus
from hansa.tracking import figures
from hansa.tracking.fields import Tracking, TrackingStatus
from hansa.tracking.task import TrackerReport, TrackerTask, make_task


def step(draft: Draft, status: FederationStatus) -> FederationStatus:
    """The status with what a tracker Job did; the next one is asked for where there is news."""
    wanted = draft.federation.spec.tracking
    if wanted is None:
        return status
    tracking = _heed(draft, status.tracking or TrackingStatus())
    due = policy.mark(draft.federation.spec, status)
    if not _runs(draft, tracking):
        tracking = _next(tracking, due, draft.federation.metadata.generation)
    if tracking != status.tracking:  # stored before it is made: a name never has two tasks
        draft.wake(draft.now)
        return status.model_copy(update={"tracking": tracking})
    if tracking.task and tracking.task != tracking.exported and not tracking.gave_up:
        draft.ask(_request(draft, status, wanted, tracking), tracking.not_before)
    return status


def _next(tracking: TrackingStatus, due: str, generation: int) -> TrackingStatus:
    """With what is due now; a changed spec gives what was given up another chance."""
    if not due or due == tracking.exported:
        return tracking
    tracking = policy.with_task(tracking, due)
    if tracking.gave_up and tracking.gave_up != generation:
        return tracking.model_copy(update={"failures": 0, "gave_up": 0, "not_before": None})
    return tracking


def _runs(draft: Draft, tracking: TrackingStatus) -> bool:
    job = draft.observed(_name(draft, tracking)) if tracking.task else None
    return job is not None and job.is_active


def _heed(draft: Draft, tracking: TrackingStatus) -> TrackingStatus:
    job = draft.observed(_name(draft, tracking)) if tracking.task else None
    if job is None:
        return tracking
    if job.is_active:
        return policy.under_way(tracking, job)
    if job.state == "succeeded" and isinstance(job.report, TrackerReport):
        return policy.after_success(tracking, job.round)
    generation = draft.federation.metadata.generation
    failed = policy.after_failure(tracking, job, generation, draft.now)
    if not tracking.failures:
        draft.tell("TrackingFailed", f"tracker: {failed.message}", warning=True)
    return failed


def _name(draft: Draft, tracking: TrackingStatus) -> str:
    return names.tracker_job(draft.federation.metadata.name, tracking.attempt)


def _request(
    draft: Draft, status: FederationStatus, wanted: Tracking, tracking: TrackingStatus
) -> JobRequest:
    return JobRequest(
        name=_name(draft, tracking),
        role="tracker",
        round=status.round,
        environment="",
        attempt=tracking.attempt,
        assignment=_task(draft, status, wanted),
    )


def _task(draft: Draft, status: FederationStatus, wanted: Tracking) -> TrackerTask:
    """At least what its digest names: what has come since is exported with it."""
    federation = draft.federation.model_copy(update={"status": status})
    metadata = federation.metadata
    record = figures.record(
        federation, metadata.uid or metadata.name, is_over=policy.is_over(status)
    )
    return make_task(
        record,
        federation=metadata.name,
        to=wanted.to,
        url=wanted.url,
        experiment=wanted.experiment,
        round_=status.round,
    )
