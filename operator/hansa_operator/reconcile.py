"""One pass over one object: see, plan, make Jobs, write the status, tell.

The order makes every moment a safe one to die in. Jobs are only made for a status that is stored
already, and only deleted after the status that no longer wants them is; what a pass has not done,
the next one does. Events and deletions wait until no Job is left to make: a GPU waits for those.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from hansa.api.jobs import FailureReason, JobRequest, JobState, ObservedJob
from hansa.api.member_status import SiloStatus
from hansa.api.status import FederationStatus
from hansa.core.errors import InputError, PermanentError
from hansa.kubernetes.client import ApiError
from hansa_operator import kinds, publish
from hansa_operator.children import Children, ObservedChildren
from hansa_operator.index import Family, Index, Key
from hansa_operator.jobs import JobRefused, build
from hansa_operator.kinds import KINDS, AnyPlan, Thing
from hansa_operator.metrics import MetricsRecorder
from hansa_operator.podtemplate import allowed
from hansa_operator.settings import Settings

SETTLE_SECONDS = 2.0
"""A status that only tells how far Jobs are is written this often at most."""
LOOK_AGAIN_SECONDS = 10.0
"""How often a Job that does not start is asked why: no watch shows a volume that is missing."""
MOST_STEPS = 12
"""A plan that never rests is a fault; the next pass goes on instead of this one for ever."""


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


@dataclass(frozen=True)
class Later:
    """What a pass leaves to do once its status is stored and no Job is left to make."""

    made: Step
    sight: ObservedChildren
    now: datetime

    @property
    def delete(self) -> list[str]:
        """Jobs that nobody waits for, or that stay although they should have gone."""
        return [*self.made.delete, *self.sight.lingering]


def step(thing: Thing, observed: list[ObservedJob], now: datetime) -> Step:
    """Plan until the plan rests or asks for Jobs that need a stored status."""
    made = Step()
    for _ in range(MOST_STEPS):
        next_ = kinds.of(thing).plan(thing, observed, now)
        if next_.create and made.links:
            made.goes_on = True
            return made
        made.links.append((thing, next_))
        thing = thing.model_copy(update={"status": next_.status})
        if next_.create or next_.wake_at is None or next_.wake_at > now:
            return made
    made.goes_on = True
    return made


class Reconciler:
    """Brings objects forward; one of them is never in two threads at once."""

    def __init__(
        self,
        index: Index,
        children: Children,
        publisher: publish.Publisher,
        recorder: MetricsRecorder,
        settings: Settings,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._index = index
        self._children = children
        self._publisher = publisher
        self._recorder = recorder
        self._settings = settings
        self._clock = clock
        self._written: dict[Key, datetime] = {}

    def reconcile(self, key: Key, *, afresh: bool = False) -> float | None:
        """Bring an object forward; seconds until the next look, or None: when a watch asks.

        `afresh` reads its Jobs and Pods from the API first, in case a watch has missed one.
        """
        if afresh:
            self._publisher.look(key, self._index.get(key).owner)
            self._children.refresh(key)
        later: list[Later] = []
        try:
            return self._bring_forward(key, later)
        except Exception as error:
            if not isinstance(error, ApiError):
                self._publisher.admit(key, self._index.get(key).owner, error, self._clock())
            raise
        finally:
            self._finish(key, later)

    def _bring_forward(self, key: Key, later: list[Later]) -> float | None:
        for _ in range(MOST_STEPS):
            family = self._index.get(key)
            if family.owner is None:
                self._forget(key)
                return None
            if family.owner["metadata"].get("deletionTimestamp"):
                return None  # its children go with it
            seconds = self._pass(key, family, later)
            if seconds != 0:
                return seconds
        return 0.0

    def _forget(self, key: Key) -> None:
        self._written.pop(key, None)
        self._children.forget(key)
        self._recorder.forget(*key)

    def _finish(self, key: Key, later: list[Later]) -> None:
        """Delete what nobody waits for, and tell what happened."""
        for name in dict.fromkeys(name for after in later for name in after.delete):
            self._children.delete(key, name)
        for after in later:
            for thing, link in after.made.links:
                self._publisher.tell(thing, link.events, after.now)
                self._recorder.record(thing, link, after.sight.jobs)

    def _pass(self, key: Key, family: Family, later: list[Later]) -> float | None:
        now, kind = self._clock(), KINDS[key.kind]
        try:
            thing = kind.read(family.owner or {})
            if why := kind.unfit(thing, allowed(self._settings)):
                raise InputError(why)
            sight = self._children.observe(key, family, now)
            made = step(thing, sight.jobs, now)
            if sight.is_doubtful or made.create:
                # Acting on what is absent needs a look at what is there now, not what was shown.
                self._children.refresh(key)
                sight = self._children.observe(key, self._index.get(key), now)
                made = step(thing, sight.jobs, now)
            made = self._create(thing, made, sight.jobs, now)
            return self._publish(key, family, Later(made, sight, now), later)
        except (InputError, PermanentError) as error:
            self._publisher.reject(key, family.owner or {}, error.message, now)
            return None

    def _create(self, thing: Thing, made: Step, jobs: list[ObservedJob], now: datetime) -> Step:
        """Make the Jobs asked for; those that cannot be made count as failed, with the reason."""
        unmade = []
        for request in made.create:
            try:
                problem = self._children.create(build(request, thing, self._settings))
            except JobRefused as error:
                unmade.append(_cannot_start(request, error.message, now))
                continue
            if problem and problem.may_pass:
                unmade.append(_waits(request, thing, problem.message, now))
            elif problem:
                unmade.append(_cannot_start(request, problem.message, now))
        if not unmade:
            return made
        made = step(thing, [*jobs, *unmade], now)
        made.is_blocked = any(job.state == "starting" for job in unmade)
        return made

    def _publish(self, key: Key, family: Family, after: Later, later: list[Later]) -> float | None:
        made, now = after.made, after.now
        changed = made.status != made.links[0][0].status
        pause = self._settling(key, now)
        if changed and pause and not made.is_pressing:
            return pause
        if changed:
            self._publisher.write_status(key, family.owner or {}, made.status.to_json())
            self._written[key] = now
        later.append(after)
        return 0.0 if made.goes_on else self._rest(made, after.sight, now)

    def _settling(self, key: Key, now: datetime) -> float:
        """Seconds until a status that is not pressing may be written."""
        since = self._written.get(key)
        if since is None:
            return 0.0
        return max(0.0, SETTLE_SECONDS - (now - since).total_seconds())

    def _rest(self, made: Step, sight: ObservedChildren, now: datetime) -> float | None:
        moments = [moment for _, link in made.links if (moment := link.wake_at)]
        if made.is_blocked or any(job.state == "starting" for job in sight.jobs):
            moments.append(now + timedelta(seconds=LOOK_AGAIN_SECONDS))
        if not moments:
            return None
        return max(0.01, (min(moments) - now).total_seconds())


def _cannot_start(request: JobRequest, why: str, now: datetime) -> ObservedJob:
    """A Job that can never be made as things are, as a plan sees one that cannot start."""
    return _never_made(request, "failed", why, now, reason="CannotStart")


def _waits(request: JobRequest, thing: Thing, why: str, now: datetime) -> ObservedJob:
    """A Job that the API server does not take yet; its start timeout runs all the same."""
    since = kinds.of(thing).waits_since(thing, request)
    return _never_made(request, "starting", why, since or now)


def _never_made(
    request: JobRequest,
    state: JobState,
    why: str,
    since: datetime,
    reason: FailureReason = "",
) -> ObservedJob:
    return ObservedJob(
        name=request.name,
        role=request.role,
        round=request.round,
        environment=request.environment,
        attempt=request.attempt,
        state=state,
        created_at=since,
        reason=reason,
        message=why,
    )
