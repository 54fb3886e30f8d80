"""Drafts of plans: they collect the Jobs, events and wake-ups that the state machine asks for."""

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from hansa.api import job_names
from hansa.api.assignment import ClientReport, EvaluateReport
from hansa.api.bucket_documents import fingerprint
from hansa.api.constants import EventReason
from hansa.api.courier_assignment import CourierAssignment
from hansa.api.exchange import CourierStatus
from hansa.api.jobs import BasePlan, Event, JobRequest, ObservedJob, Plan
from hansa.api.member_status import FederationMember, SiloStatus
from hansa.api.silo_assignment import SiloCourierAssignment
from hansa.api.status import Attempts, CurrentRound, Federation, FederationStatus
from hansa.core.text import count
from hansa.plan import job_requests, member_conditions
from hansa.plan.policy import courier as couriers
from hansa.plan.policy import deadline, retention
from hansa.plan.summary import conclude, name_attempt_job


class BaseDraft:
    """What plans of all kinds of objects collect: Jobs to create, events, the next wake-up."""

    def __init__(
        self,
        observed: Sequence[ObservedJob],
        now: datetime,
        name_courier: Callable[[int], str],
    ) -> None:
        self.now = now
        self._name_courier = name_courier
        self._jobs = {job.name: job for job in observed}
        self._create: list[JobRequest] = []
        self._wanted: set[str] = set()
        self._events: list[Event] = []
        self._wake_at: datetime | None = None

    def ask(self, request: JobRequest, not_before: datetime | None) -> ObservedJob | None:
        """A Job as observed; requested when it is missing and its backoff is over."""
        self._wanted.add(request.name)
        job = self._jobs.get(request.name)
        if job is None:
            if not_before and self.now < not_before:
                self.wake(not_before)
            else:
                self._create.append(request)
        return job

    def find_courier_job(self, courier: CourierStatus | None) -> ObservedJob | None:
        """The courier's Job as seen, whether it is wanted or not."""
        return self._jobs.get(self._name_courier(courier.attempt)) if courier else None

    def request_courier(
        self,
        known: CourierStatus | None,
        task: CourierAssignment | SiloCourierAssignment,
        round_: int,
    ) -> CourierStatus:
        """Ask for a courier with this task, once the status that names it is stored.

        A Job's name must never stand for two tasks, so a new task is stored before its Job is made.
        """
        courier = couriers.assign_task(known, fingerprint(task.to_json()))
        if courier != known:
            self.wake(self.now)
            return courier
        request = JobRequest(
            name=self._name_courier(courier.attempt),
            role="courier",
            round=round_,
            environment="",
            attempt=courier.attempt,
            assignment=task,
        )
        self.ask(request, courier.not_before)
        return courier

    def wake(self, *moments: datetime | None) -> None:
        """Plan again at the first of these moments."""
        self._wake_at = deadline.find_earliest(self._wake_at, *moments)

    def tell(self, reason: EventReason, message: str, *, warning: bool = False) -> None:
        """An event for people."""
        self._events.append(Event(reason=reason, message=message, warning=warning))

    def _collect(self, keep: Set[str], round_: int) -> dict[str, Any]:
        """What every plan has beside its status; Jobs that are not kept are deleted."""
        return {
            "create": self._create,
            "delete": retention.list_deletable(self._jobs.values(), keep, round_),
            "events": self._events,
            "wake_at": self._wake_at,
        }


class Draft(BaseDraft):
    """A federation's plan while it is made."""

    def __init__(
        self, federation: Federation, observed: Sequence[ObservedJob], now: datetime
    ) -> None:
        name_courier = partial(job_names.courier_job, federation.metadata.name)
        super().__init__(observed, now, name_courier)
        self.federation = federation
        self.answers: dict[str, ClientReport | EvaluateReport | None] = {}
        """Reports of remote silos that this pass has read."""

    def want(
        self, current: CurrentRound, attempts: Attempts, environment: str
    ) -> ObservedJob | None:
        """The Job of an attempt as observed; requested when it is missing and may start."""
        federation, name = self.federation, self.federation.metadata.name
        if environment:
            task = job_requests.build_client_assignment(federation, current, environment)
            job = name_attempt_job(name, current, environment, attempts.attempt)
        else:
            task = job_requests.build_aggregator_assignment(federation, current)
            job = job_names.aggregator_job(name, current.round, attempts.attempt)
        request = JobRequest(
            name=job,
            role=task.role,
            round=current.round,
            environment=environment,
            attempt=attempts.attempt,
            assignment=task,
        )
        return self.ask(request, attempts.not_before)

    def finish(self, status: FederationStatus, *, refusals: Sequence[str] = ()) -> Plan:
        """The plan, with the status brought to its conclusions and stale Jobs to delete."""
        keep = self._jobs.keys() if refusals else self._wanted
        concluded = conclude(status, self.federation, refusals, self.now)
        is_new = self.federation.status.phase != "Succeeded"
        if concluded.phase == "Succeeded" and is_new:
            self.tell("Succeeded", f"{count(concluded.completed, 'round')} done")
        return Plan(status=concluded, **self._collect(keep, status.round))


@dataclass(frozen=True, kw_only=True)
class SiloPlan(BasePlan):
    """What to do next for a silo."""

    status: SiloStatus
    """The new status, to be written once and only if it changed."""


class MemberDraft(BaseDraft):
    """A silo's plan while it is made."""

    def __init__(
        self, silo: FederationMember, observed: Sequence[ObservedJob], now: datetime
    ) -> None:
        name_courier = partial(job_names.silo_courier_job, silo.metadata.name)
        super().__init__(observed, now, name_courier)
        self.silo = silo

    def finish(self, status: SiloStatus) -> SiloPlan:
        """The plan; Jobs that are no longer wanted are deleted."""
        round_ = status.current.round if status.current else 0
        concluded = member_conditions.conclude(self.silo, status, self.now)
        return SiloPlan(status=concluded, **self._collect(self._wanted, round_))
