"""Jobs as a plan sees them and asks for them; both executors speak in these."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from hansa.api.assignment import Assignment, Role
from hansa.api.constants import EventReason
from hansa.api.courier_assignment import CourierAssignment
from hansa.api.reports import AnyReport as AnyReport
from hansa.api.silo_assignment import SiloClientAssignment, SiloCourierAssignment
from hansa.api.status import FederationStatus

JobState = Literal["queued", "starting", "running", "succeeded", "failed"]
"""`queued`: suspended by a queue, no clock runs. `starting`: its Pod waits for a node or image."""
FailureReason = Literal["", "Disrupted", "CannotStart", "ConsentMissing", "DeadlineExceeded"]


@dataclass(frozen=True, kw_only=True)
class JobIdentity:
    """Which Job it is."""

    name: str
    """Its name, from hansa.api.job_names."""
    role: Role
    """What it does."""
    round: int
    """Its round; of an evaluation, the adapter's."""
    environment: str = ""
    """Its environment; empty for the aggregator and the courier."""
    attempt: int = 1
    """Which attempt it is."""


@dataclass(frozen=True, kw_only=True)
class ObservedJob(JobIdentity):
    """One Job as the executor found it."""

    state: JobState
    """How far it is."""
    created_at: datetime
    """When its Pod was created; the start timeout counts from here."""
    started_at: datetime | None = None
    """When its container ran; the round's timeout counts from the first one."""
    exit_code: int | None = None
    """Exit code of its container, once it failed."""
    reason: FailureReason = ""
    """Why it failed, where no exit code tells, or cannot start yet."""
    message: str = ""
    """A sentence from the executor, for people."""
    report: AnyReport | None = None
    """Its report, once it ended; one that failed may leave it too."""

    @property
    def is_active(self) -> bool:
        """Whether it still uses or waits for a machine."""
        return self.state in ("queued", "starting", "running")


@dataclass(frozen=True, kw_only=True)
class JobRequest(JobIdentity):
    """A Job that should exist; creating it again changes nothing."""

    assignment: Assignment | CourierAssignment | SiloCourierAssignment | SiloClientAssignment
    """What the program has to do."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something a person may want to know about, once."""

    reason: EventReason
    """Machine-readable kind."""
    message: str
    """A sentence."""
    warning: bool = False
    """Whether it is a problem."""


@dataclass(frozen=True, kw_only=True)
class BasePlan:
    """What to do next: create and delete these Jobs, write the status, publish these events."""

    create: list[JobRequest] = field(default_factory=list)
    """Jobs to create."""
    delete: list[str] = field(default_factory=list)
    """Names of Jobs to delete."""
    events: list[Event] = field(default_factory=list)
    """Events, to be published after the status was written."""
    wake_at: datetime | None = None
    """When to plan again even if nothing happens; none: only a change matters."""


@dataclass(frozen=True, kw_only=True)
class Plan(BasePlan):
    """What to do next for a federation."""

    status: FederationStatus
    """The new status, to be written once and only if it changed."""
