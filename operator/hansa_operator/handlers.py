"""The watches: kopf delivers events of objects, Jobs and Pods; each asks for one pass.

Only raw events are used: kopf's other handlers write annotations and finalizers, and a finalizer
would keep objects from being deleted once the operator is uninstalled.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import kopf

from hansa.api import constants
from hansa.kubernetes.client import Data
from hansa_operator.index import Index, Key
from hansa_operator.jobs import MANAGED
from hansa_operator.kinds import KINDS
from hansa_operator.workqueue import WorkQueue

COALESCE_SECONDS = 0.05
"""Events come in bunches: a Job's last state and its Pod's are one reason for one pass."""
WATCH_SECONDS = 300
DELETED = "DELETED"
Note = Callable[[Data], Key | None]
"""Takes note of an object that was shown or deleted; whose pass it asks for."""


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

    def watch(group: str, version: str, plural: str, see: Note, forget: Note) -> None:
        @kopf.on.event(group, version, plural, registry=registry, id=plural)
        async def changed(event: Any, **_: Any) -> None:
            note = forget if event["type"] == DELETED else see
            if key := note(dict(event["object"])):
                queue.add(key, COALESCE_SECONDS)

    for kind in KINDS.values():
        own = (partial(index.see_owner, kind.name), partial(index.forget_owner, kind.name))
        watch(constants.GROUP, constants.VERSION, kind.plural, *own)
    watch("batch", "v1", "jobs", partial(index.see, "jobs"), partial(index.forget, "jobs"))
    watch("", "v1", "pods", partial(index.see, "pods"), partial(index.forget, "pods"))
