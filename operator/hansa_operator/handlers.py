"""The watches: kopf delivers events of objects, Jobs and Pods; each asks for one pass.

Only raw events are used: kopf's other handlers write annotations and finalizers, and a finalizer
would keep objects from being deleted once the operator is uninstalled.
"""

from collections.abc import Iterator
from typing import Any

import kopf

from hansa.api import constants
from hansa_operator.index import Index, Kind
from hansa_operator.jobs import MANAGED
from hansa_operator.kinds import KINDS, ObjectKind
from hansa_operator.workqueue import WorkQueue

COALESCE_SECONDS = 0.05
"""Events come in bunches: a Job's last state and its Pod's are one reason for one pass."""
WATCH_SECONDS = 300
DELETED = "DELETED"


class _Endless:
    """Pauses between tries that never run out: an API server may be away for a long time."""

    def __iter__(self) -> Iterator[float]:
        yield from (0.2, 0.5, 1, 2)
        while True:
            yield 3


class _NoDiffs(kopf.DiffBaseStorage):
    """No last states of objects: kopf would copy each object twice to compare what nobody reads."""

    def build(self, **_: Any) -> Any:
        """An empty state of any object."""
        return {}

    def fetch(self, **_: Any) -> None:
        """None was stored."""

    def store(self, **_: Any) -> None:
        """Nothing to store."""


def make_settings() -> kopf.OperatorSettings:
    """kopf as a watcher: no peering, no Events or scans of its own, only what bears our label."""
    settings = kopf.OperatorSettings()
    settings.peering.standalone = True
    settings.posting.enabled = False
    settings.persistence.diffbase_storage = _NoDiffs()
    settings.scanning.disabled = True
    settings.watching.server_timeout = WATCH_SECONDS
    settings.watching.client_timeout = WATCH_SECONDS + 30
    settings.watching.connect_timeout = 10
    settings.watching.label_selectors["jobs.batch"] = MANAGED
    settings.watching.label_selectors["pods"] = MANAGED
    settings.networking.error_backoffs = _Endless()
    settings.networking.request_timeout = 60
    settings.queueing.idle_timeout = 0.5  # how long a stop waits for workers without work
    settings.queueing.exit_timeout = 0.5
    return settings


def register(registry: kopf.OperatorRegistry, index: Index, queue: WorkQueue) -> None:
    """Connect the watches with the queue; kopf would call plain functions in other threads."""

    for kind in KINDS.values():
        _register_owner(registry, index, queue, kind)
    _register_children(registry, index, queue, "jobs", "batch")
    _register_children(registry, index, queue, "pods", "")


def _register_children(
    registry: kopf.OperatorRegistry, index: Index, queue: WorkQueue, kind: Kind, group: str
) -> None:
    @kopf.on.event(group, "v1", kind, registry=registry, id=kind)
    async def child_changed(event: Any, **_: Any) -> None:
        note = index.forget if event["type"] == DELETED else index.see
        if key := note(kind, dict(event["object"])):
            queue.add(key, COALESCE_SECONDS)


def _register_owner(
    registry: kopf.OperatorRegistry, index: Index, queue: WorkQueue, kind: ObjectKind
) -> None:
    @kopf.on.event(
        constants.GROUP, constants.VERSION, kind.plural, registry=registry, id=kind.plural
    )
    async def owner_changed(event: Any, **_: Any) -> None:
        note = index.forget_owner if event["type"] == DELETED else index.see_owner
        queue.add(note(kind.name, dict(event["object"])), COALESCE_SECONDS)
