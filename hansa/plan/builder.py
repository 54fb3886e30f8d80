"""A plan in the making: what the steps of the state machine ask for, in the order they ask."""

from collections.abc import Sequence
from datetime import datetime

from hansa.api import job_names
from hansa.api.assignment import ClientReport, EvaluateReport
from hansa.api.constants import EventReason
from hansa.api.jobs import Event, JobRequest, ObservedJob, Plan
from hansa.api.status import Attempts, CurrentRound, Federation, FederationStatus
from hansa.core.text import count
from hansa.plan import job_requests
from hansa.plan.policy import deadline, retention
from hansa.plan.summary import conclude


class BaseDraft:
    """What the plans of all kinds of objects collect: Jobs to make, events, the next moment."""

    def __init__(self, observed: Sequence[ObservedJob], now: datetime) -> None:
        self.now = now
        self._jobs = {job.name: job for job in observed}
        self._create: list[JobRequest] = []
        self._wanted: set[str] = set()
        self._events: list[Event] = []
        self._wake_at: datetime | None = None

    def observed(self, name: str) -> ObservedJob | None:
        """A Job as seen, whether it is wanted or not."""
        return self._jobs.get(name)

    def ask(self, request: JobRequest, not_before: datetime | None) -> ObservedJob | None:
        """A Job as seen; asked for when it is missing and its time has come."""
        self._wanted.add(request.name)
        job = self._jobs.get(request.name)
        if job is None:
            if not_before and self.now < not_before:
                self.wake(not_before)
            else:
                self._create.append(request)
        return job

    def wake(self, *moments: datetime | None) -> None:
        """Plan again at the first of these moments."""
        self._wake_at = deadline.earliest(self._wake_at, *moments)

    def tell(self, reason: EventReason, message: str, *, warning: bool = False) -> None:
        """An event for people."""
        self._events.append(Event(reason=reason, message=message, warning=warning))


class Draft(BaseDraft):
    """The plan of a federation in the making."""

    def __init__(
        self, federation: Federation, observed: Sequence[ObservedJob], now: datetime
    ) -> None:
        super().__init__(observed, now)
        self.federation = federation
        self.answers: dict[str, ClientReport | EvaluateReport | None] = {}
        """Reports of silos that run elsewhere, which this pass has heard of."""

    def want(
        self, current: CurrentRound, attempts: Attempts, environment: str
    ) -> ObservedJob | None:
        """The Job of an attempt as seen; asked for when it is missing and its time has come."""
        _, request = _request(self.federation, current, attempts, environment)
        return self.ask(request, attempts.not_before)

    def tell_once(self, is_new: bool, reason: EventReason, message: str) -> None:
        """An event only when the state has just changed."""
        if is_new:
            self.tell(reason, message)

    def finish(self, status: FederationStatus, *, refusals: Sequence[str] = ()) -> Plan:
        """The plan, with the status brought to its conclusions and stale Jobs to delete."""
        keep = self._jobs.keys() if refusals else self._wanted
        concluded = conclude(status, self.federation, refusals, self.now)
        is_new = (self.federation.status.phase, concluded.phase) != ("Succeeded", "Succeeded")
        if concluded.phase == "Succeeded":
            self.tell_once(is_new, "Succeeded", f"{count(concluded.completed, 'round')} done")
        return Plan(
            status=concluded,
            create=self._create,
            delete=retention.to_delete(self._jobs.values(), keep, status.round),
            events=self._events,
            wake_at=self._wake_at,
        )


def _request(
    federation: Federation, current: CurrentRound, attempts: Attempts, environment: str
) -> tuple[str, JobRequest]:
    fed, round_ = federation.metadata.name, current.round
    if not environment:
        task = job_requests.for_aggregator(federation, current)
        name = job_names.aggregator_job(fed, round_, attempts.attempt)
    else:
        task = job_requests.for_environment(federation, current, environment)
        build = job_names.client_job if current.kind == "round" else job_names.evaluate_job
        name = build(fed, round_, environment, attempts.attempt)
    return name, JobRequest(
        name=name,
        role=task.role,
        round=round_,
        environment=environment,
        attempt=attempts.attempt,
        assignment=task,
    )
