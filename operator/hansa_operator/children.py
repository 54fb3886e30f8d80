"""The Jobs and Pods of an object: read from the index, created and deleted through the API."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from hansa.api.jobs import ObservedJob
from hansa.kubernetes import paths
from hansa.kubernetes.client import ApiError, Data, Kube
from hansa_operator import observe
from hansa_operator.index import Family, Index, Key, get_uid
from hansa_operator.kinds import KINDS
from hansa_operator.settings import Settings

PATIENCE_SECONDS = 5.0
"""A Pod that is prepared for longer than this is asked for its events."""
ASK_SECONDS = 10.0
"""How long an answer about events counts as fresh."""


class ObservedChildren(NamedTuple):
    """What is seen of an object's Jobs."""

    jobs: list[ObservedJob]
    """As a plan sees them."""
    lingering: list[str]
    """Jobs that count as failed although Kubernetes still tries to run them."""
    is_doubtful: bool
    """Whether a Job has ended and its Pod's final state was not seen: the watch may be behind."""


class Problem(NamedTuple):
    """Why the API server did not take a Job."""

    message: str
    may_pass: bool


@dataclass
class _Notes:
    """What the API has shown of objects, by UID."""

    certain: set[str] = field(default_factory=set)
    """Jobs that had ended when the Pods were read: what those do not say is lost."""
    events: dict[str, tuple[datetime, list[Data]]] = field(default_factory=dict)
    """Events, and when they were read."""

    def keep(self, present: set[str]) -> None:
        """Objects that are gone need no notes."""
        self.certain &= present
        self.events = {known: read for known, read in self.events.items() if known in present}


class Children:
    """Reads and writes the children of objects; deterministic names make both repeatable."""

    def __init__(self, kube: Kube, index: Index, settings: Settings) -> None:
        self._kube = kube
        self._index = index
        self._settings = settings
        self._notes: dict[Key, _Notes] = {}

    def refresh(self, key: Key) -> None:
        """Read all Jobs and Pods of an object from the API: what they show is certain."""
        selector = f"{KINDS[key.kind].label}={key.name}"
        jobs, pods = (
            self._kube.list(path(key.namespace), labelSelector=selector)["items"]
            for path in (paths.jobs, paths.pods)
        )
        self._index.replace(key, "jobs", jobs)
        self._index.replace(key, "pods", pods)
        self._notes.setdefault(key, _Notes()).certain |= {
            get_uid(job) for job in jobs if observe.has_ended(job)
        }

    def forget(self, key: Key) -> None:
        """An object is gone."""
        self._notes.pop(key, None)

    def observe(self, key: Key, family: Family, now: datetime) -> ObservedChildren:
        """The Jobs of this very object, not those of an earlier one of its name."""
        owner, notes = get_uid(family.owner), self._notes.setdefault(key, _Notes())
        jobs = [job for job in family.jobs.values() if observe.find_controller(job) == owner]
        pods = list(family.pods.values())
        notes.keep({get_uid(thing) for thing in (*jobs, *pods)})
        events = self._events(notes, jobs, pods, now)
        observed = observe.observe_all(
            jobs, pods, events, cluster_autoscaler=self._settings.cluster_autoscaler
        )
        bodies = {job["metadata"]["name"]: job for job in jobs}
        lingering = [job.name for job in observed if observe.is_lingering(bodies[job.name], job)]
        silent = [bodies[job.name] for job in observed if job.report is None]
        unsure = {get_uid(job) for job in silent if observe.has_ended(job)} - notes.certain
        return ObservedChildren(observed, lingering, bool(unsure))

    def create(self, manifest: Data) -> Problem | None:
        """Create a Job; an existing one of that name will do if this object owns it."""
        namespace, name = manifest["metadata"]["namespace"], manifest["metadata"]["name"]
        try:
            self._index.see("jobs", self._kube.create(paths.jobs(namespace), manifest))
        except ApiError as error:
            if error.is_conflict:
                return self._adopt(namespace, name, manifest)
            if error.status == 403:  # a quota, an admission policy, a namespace that goes away
                return Problem(error.message, may_pass=True)
            if error.status in (400, 422):
                return Problem(error.message, may_pass=False)
            raise
        return None

    def _adopt(self, namespace: str, name: str, manifest: Data) -> Problem | None:
        for there in list_named(self._kube, paths.jobs(namespace), name):
            if observe.find_controller(there) == observe.find_controller(manifest):
                self._index.see("jobs", there)
                return None
        return Problem(f"Job {name} belongs to another object and must go first", may_pass=True)

    def delete(self, key: Key, name: str) -> None:
        """Delete a Job with its Pod; one that is gone or going is left alone."""
        job = self._index.get(key).jobs.get(name)
        if job is None or job["metadata"].get("deletionTimestamp"):
            return
        options = {"propagationPolicy": "Background", "preconditions": {"uid": get_uid(job)}}
        try:
            self._kube.delete(paths.jobs(key.namespace, name), options)
        except ApiError as error:
            if not (error.is_not_found or error.is_conflict):
                raise
        self._index.forget("jobs", job)

    def _events(
        self, notes: _Notes, jobs: list[Data], pods: list[Data], now: datetime
    ) -> list[Data]:
        """Events of whatever has been prepared for too long: nothing else says what is missing."""
        events: list[Data] = []
        for thing in observe.list_stuck(jobs, pods, now, PATIENCE_SECONDS):
            read = notes.events.get(get_uid(thing))
            if read is None or (now - read[0]).total_seconds() >= ASK_SECONDS:
                path = paths.events(thing["metadata"]["namespace"])
                chosen = f"involvedObject.uid={get_uid(thing)}"
                read = (now, self._kube.list(path, fieldSelector=chosen)["items"])
                notes.events[get_uid(thing)] = read
            events += read[1]
        return events


def list_named(kube: Kube, collection: str, name: str) -> list[Data]:
    """The object of that name, or nothing; by a list, since that right is needed anyway."""
    items: list[Data] = kube.list(collection, fieldSelector=f"metadata.name={name}")["items"]
    return items
