"""One pass over one object: observe, plan, create Jobs, write the status, publish Events.

The order makes a crash safe at any moment. A Job is only created for a status that is stored
already, and only deleted after the status that no longer wants it is; what a pass has not done,
the next one does. Events and deletions come last, since GPUs wait for new Jobs.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from hansa.api.jobs import JobRequest, ObservedJob
from hansa.api.member_status import SiloStatus
from hansa.api.status import FederationStatus
from hansa.core.errors import InputError, PermanentError
from hansa.kubernetes.client import ApiError
from hansa_operator import kinds, publish
from hansa_operator.children import Children, ObservedChildren, Problem
from hansa_operator.index import Family, Index, Key
from hansa_operator.jobs import JobRefused, build_manifest
from hansa_operator.kinds import KINDS, AnyPlan, Thing
from hansa_operator.metrics import MetricsRecorder
from hansa_operator.podtemplate import build_allowlist
from hansa_operator.settings import Settings

SETTLE_SECONDS = 2.0
"""A status that only shows the progress of Jobs is written at most this often."""
LOOK_AGAIN_SECONDS = 10.0
"""How often a Job that does not start is asked why: no watch shows a volume that is missing."""
MOST_STEPS = 12
"""A plan that never settles is a bug; after this many steps the next pass continues."""


@dataclass
class Step:
    """Plans that follow one another without a Job between them: one status write for all."""

    links: list[tuple[Thing, AnyPlan]] = field(default_factory=list)
    """Each plan with the object it was made for."""
    goes_on: bool = False
    """Whether the next plan asks for Jobs, once this status is stored."""
    is_blocked: bool = False
    """Whether the API server would not take a Job for now."""

    @property
    def status(self) -> FederationStatus | SiloStatus:
        """The status after the last plan."""
        return self.links[-1][1].status

    @property
    def create(self) -> list[JobRequest]:
        """Jobs to make: only a first plan has any, since its status is stored."""
        return self.links[-1][1].create

    @property
    def delete(self) -> list[str]:
        """Jobs that nobody waits for any more."""
        return sorted({name for _, link in self.links for name in link.delete})

    @property
    def is_pressing(self) -> bool:
        """Whether its status has to be stored at once."""
        return self.goes_on or any(link.events for _, link in self.links)


class PendingWork(NamedTuple):
    """What a pass leaves to do once its status is stored and no Job is left to make."""

    made: Step
    observation: ObservedChildren
    now: datetime


def plan_step(thing: Thing, observed: list[ObservedJob], now: datetime) -> Step:
    """Plan until the plan rests or asks for Jobs that need a stored status."""
    made = Step()
    for _ in range(MOST_STEPS):
        next_ = kinds.find_kind(thing).plan(thing, observed, now)
        if next_.create and made.links:
            made.goes_on = True
            return made
        made.links.append((thing, next_))
        thing = thing.model_copy(update={"status": next_.status})
        if next_.create or next_.wake_at is None or next_.wake_at > now:
            return made
    made.goes_on = True
    return made


@dataclass
class Reconciler:
    """Brings objects forward; one of them is never in two threads at once."""

    index: Index
    children: Children
    publisher: publish.Publisher
    recorder: MetricsRecorder
    settings: Settings
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    written: dict[Key, datetime] = field(default_factory=dict)
    """When the status of an object was last stored."""

    def reconcile(self, key: Key, *, afresh: bool = False) -> float | None:
        """Bring an object forward; seconds until the next look, or None: when a watch asks.

        `afresh` reads its Jobs and Pods from the API first, in case a watch has missed one.
        """
        if afresh:
            self.publisher.look(key, self.index.get(key).owner)
            self.children.refresh(key)
        later: list[PendingWork] = []
        try:
            return self._bring_forward(key, later)
        except Exception as error:
            if not isinstance(error, ApiError):
                self.publisher.report_fault(key, self.index.get(key).owner, error, self.clock())
            raise
        finally:
            self._finish(key, later)

    def _bring_forward(self, key: Key, later: list[PendingWork]) -> float | None:
        for _ in range(MOST_STEPS):
            family = self.index.get(key)
            if family.owner is None:
                self.written.pop(key, None)
                self.children.forget(key)
                self.recorder.forget(*key)
                return None
            if family.owner["metadata"].get("deletionTimestamp"):
                return None  # its children go with it
            seconds = self._pass(key, family, later)
            if seconds != 0:
                return seconds
        return 0.0

    def _finish(self, key: Key, later: list[PendingWork]) -> None:
        """Delete what nobody waits for, and tell what happened."""
        names = (
            name for each in later for name in (*each.made.delete, *each.observation.lingering)
        )
        for name in dict.fromkeys(names):
            self.children.delete(key, name)
        for after in later:
            for thing, link in after.made.links:
                self.publisher.tell(thing, link.events, after.now)
                self.recorder.record(thing, link, after.observation.jobs)

    def _pass(self, key: Key, family: Family, later: list[PendingWork]) -> float | None:
        now, kind = self.clock(), KINDS[key.kind]
        try:
            thing = kind.read(family.owner or {})
            if why := kind.unfit(thing, build_allowlist(self.settings)):
                raise InputError(why)
            observation = self.children.observe(key, family, now)
            made = plan_step(thing, observation.jobs, now)
            if observation.is_doubtful or made.create:
                # Acting on what is absent needs a look at what is there now, not what was shown.
                self.children.refresh(key)
                observation = self.children.observe(key, self.index.get(key), now)
                made = plan_step(thing, observation.jobs, now)
            made = self._create(thing, made, observation.jobs, now)
            return self._publish(key, family, PendingWork(made, observation, now), later)
        except (InputError, PermanentError) as error:
            self.publisher.reject(key, family.owner or {}, error.message, now)
            return None

    def _create(self, thing: Thing, made: Step, jobs: list[ObservedJob], now: datetime) -> Step:
        """Make the Jobs asked for; those that cannot be made count as failed, with the reason."""
        unmade = []
        for request in made.create:
            try:
                problem = self.children.create(build_manifest(request, thing, self.settings))
            except JobRefused as error:
                problem = Problem(error.message, may_pass=False)
            if problem:
                unmade.append(_observe_unmade(request, thing, problem, now))
        if not unmade:
            return made
        made = plan_step(thing, [*jobs, *unmade], now)
        made.is_blocked = any(job.state == "starting" for job in unmade)
        return made

    def _publish(
        self, key: Key, family: Family, after: PendingWork, later: list[PendingWork]
    ) -> float | None:
        made, now = after.made, after.now
        changed = made.status != made.links[0][0].status
        pause = self._compute_pause(key, now)
        if changed and pause and not made.is_pressing:
            return pause
        if changed:
            self.publisher.write_status(key, family.owner or {}, made.status.to_json())
            self.written[key] = now
        later.append(after)
        return 0.0 if made.goes_on else self._rest(made, after.observation, now)

    def _compute_pause(self, key: Key, now: datetime) -> float:
        """Seconds until a status that is not pressing may be written."""
        since = self.written.get(key)
        if since is None:
            return 0.0
        return max(0.0, SETTLE_SECONDS - (now - since).total_seconds())

    def _rest(self, made: Step, observation: ObservedChildren, now: datetime) -> float | None:
        moments = [moment for _, link in made.links if (moment := link.wake_at)]
        if made.is_blocked or any(job.state == "starting" for job in observation.jobs):
            moments.append(now + timedelta(seconds=LOOK_AGAIN_SECONDS))
        if not moments:
            return None
        return max(0.01, (min(moments) - now).total_seconds())


def _observe_unmade(
    request: JobRequest, thing: Thing, problem: Problem, now: datetime
) -> ObservedJob:
    """A Job that the API server does not take, as a plan sees it: its start timeout runs."""
    since = kinds.find_kind(thing).waits_since(thing, request) if problem.may_pass else None
    return ObservedJob(
        name=request.name,
        role=request.role,
        round=request.round,
        environment=request.environment,
        attempt=request.attempt,
        state="starting" if problem.may_pass else "failed",
        created_at=since or now,
        reason="" if problem.may_pass else "CannotStart",
        message=problem.message,
    )
