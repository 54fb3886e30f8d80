"""A silo's plan in the making: Jobs it asks for, events to tell and the next moment to wake."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from hansa.api.jobs import Event, JobRequest, ObservedJob
from hansa.api.member_status import FederationMember, SiloStatus
from hansa.plan.builder import BaseDraft
from hansa.plan.member_conditions import conclude
from hansa.plan.policy import retention


@dataclass(kw_only=True)
class SiloPlan:
    """What to do next: make these Jobs, end those, write this status, tell these events."""

    status: SiloStatus
    create: list[JobRequest] = field(default_factory=list)
    delete: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    wake_at: datetime | None = None


class MemberDraft(BaseDraft):
    """A plan in the making."""

    def __init__(
        self, silo: FederationMember, observed: Sequence[ObservedJob], now: datetime
    ) -> None:
        super().__init__(observed, now)
        self.silo = silo

    def finish(self, status: SiloStatus) -> SiloPlan:
        """The plan: what is not wanted any more is deleted."""
        round_ = status.current.round if status.current else 0
        return SiloPlan(
            status=conclude(self.silo, status, self.now),
            create=self._create,
            delete=retention.to_delete(self._jobs.values(), self._wanted, round_),
            events=self._events,
            wake_at=self._wake_at,
        )
