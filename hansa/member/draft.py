"""A silo's plan in the making: Jobs it asks for, events to tell and the next moment to wake."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from hansa.jobs import Event, JobRequest, ObservedJob
from hansa.member.conditions import conclude
from hansa.member.status import FederationMember, SiloStatus
from hansa.policy import deadline, retention


@dataclass(kw_only=True)
class SiloPlan:
    """What to do next: make these Jobs, end those, write this status, tell these events."""

    status: SiloStatus
    create: list[JobRequest] = field(default_factory=list)
    delete: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    wake_at: datetime | None = None


class Draft:
    """A plan in the making."""

    def __init__(
        self, silo: FederationMember, observed: Sequence[ObservedJob], now: datetime
    ) -> None:
        self.silo = silo
        self.now = now
        self.jobs = {job.name: job for job in observed}
        self.create: list[JobRequest] = []
        self.wanted: set[str] = set()
        self.events: list[Event] = []
        self.wake_at: datetime | None = None

    def ask(self, request: JobRequest, not_before: datetime | None) -> ObservedJob | None:
        """The Job as it is seen; one that is absent is made once its pause is over."""
        self.wanted.add(request.name)
        job = self.jobs.get(request.name)
        if job is None:
            if not_before and self.now < not_before:
                self.wake(not_before)
            else:
                self.create.append(request)
        return job

    def wake(self, moment: datetime | None) -> None:
        """Look again at that moment, or before."""
        self.wake_at = deadline.earliest(self.wake_at, moment)

    def tell(self, event: Event) -> None:
        """Something that a person may want to know."""
        self.events.append(event)

    def finish(self, status: SiloStatus) -> SiloPlan:
        """The plan: what is not wanted any more is deleted."""
        round_ = status.current.round if status.current else 0
        return SiloPlan(
            status=conclude(self.silo, status, self.now),
            create=self.create,
            delete=retention.to_delete(self.jobs.values(), self.wanted, round_),
            events=self.events,
            wake_at=self.wake_at,
        )
