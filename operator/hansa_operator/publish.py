"""Writes statuses, then Events, so that an Event only tells what has happened."""

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime

from pydantic import ValidationError

from hansa.api import constants
from hansa.api.jobs import Event
from hansa.api.status import BaseCondition, replace_conditions
from hansa.core import logs
from hansa.core.errors import HansaError, InputError
from hansa.core.sanitize import sanitize
from hansa.kubernetes import paths
from hansa.kubernetes.client import ApiError, Data, Kube
from hansa_operator import kinds
from hansa_operator.children import list_named
from hansa_operator.index import Index, Key
from hansa_operator.kinds import KINDS, ObjectKind, Thing

COMPONENT = "hansa-operator"
MESSAGE_BYTES = 1024
"""Longest message that the API server takes in an Event."""

log = logs.get("operator")


class Publisher:
    """Writes statuses on the version they were planned on, and Events on a best-effort basis."""

    def __init__(self, kube: Kube, index: Index, instance: str) -> None:
        self._kube = kube
        self._index = index
        self._instance = instance

    def write_status(self, key: Key, planned_on: Data, status: Data) -> None:
        """Store a status; a conflict is raised, since the plan was made on something older."""
        collection = KINDS[key.kind].path(key.namespace)
        body = {**planned_on, "status": status}
        try:
            stored = self._kube.replace(f"{collection}/{key.name}/status", body)
        except ApiError as error:
            if error.is_conflict or error.is_not_found:
                self.look(key, planned_on)  # the next pass plans on it, however slow the watch is
            if error.status == 413 or "too large" in error.message:
                raise InputError(
                    "spec.environments: got options that make the status too long "
                    f"({error.message}), expected shorter ones: every round keeps a copy of them"
                ) from error
            raise
        self._index.see_owner(key.kind, stored)

    def look(self, key: Key, known: Data | None) -> None:
        """Read an object from the API, in case a watch missed that it changed or was deleted."""
        there = list(list_named(self._kube, KINDS[key.kind].path(key.namespace), key.name))
        for newest in there:
            self._index.see_owner(key.kind, newest)
        if known and not there:
            self._index.forget_owner(key.kind, known)

    def reject(self, key: Key, thing: Data, why: str, now: datetime) -> None:
        """Say in the conditions why an object cannot be planned for; its Jobs are left alone.

        The rest of the status stays as it is, even if this version cannot read it.
        """
        kind = KINDS[key.kind]
        new = _set_false(kind, thing, kind.rejected, "Invalid", why, now)
        new |= {"phase": "Failed", "observedGeneration": _generation(thing)}
        if new != thing.get("status"):
            self.write_status(key, thing, new)
            log.warning("invalid", **{kind.word: f"{key.namespace}/{key.name}"}, message=why)

    def report_fault(self, key: Key, thing: Data | None, fault: Exception, now: datetime) -> None:
        """Say in a condition that the operator failed, which is no fault of the object.

        The phase and everything else stay as they are: the next pass may succeed. The text of the
        error is in the log alone, since one that differs each time would be a write each time.
        """
        if thing is None:
            return
        why = (
            f"the operator failed with {type(fault).__name__} and tries again; this is a bug in "
            "Hansa, not in this object: the operator's log has the traceback"
        )
        kind = KINDS[key.kind]
        new = _set_false(kind, thing, kind.rejected[-1:], "OperatorError", why, now)
        if new != thing.get("status"):
            with suppress(HansaError):  # the fault itself is raised, logged and tried again
                self.write_status(key, thing, new)

    def tell(self, thing: Thing, events: Iterable[Event], now: datetime) -> None:
        """Make Events of a plan; losing one is no reason to stop its object."""
        metadata = thing.metadata
        where = {kinds.find_kind(thing).word: f"{metadata.namespace}/{metadata.name}"}
        for event in events:
            say = log.warning if event.warning else log.info
            say(event.reason, **where, message=event.message)
            try:
                manifest = self._manifest(thing, event, now)
                self._kube.create(paths.events(metadata.namespace), manifest)
            except ApiError as error:
                if not error.is_conflict:  # published already, before a crash
                    log.warning("event-lost", **where, message=error.message)

    def _manifest(self, thing: Thing, event: Event, now: datetime) -> Data:
        metadata, time = thing.metadata, now.strftime("%Y-%m-%dT%H:%M:%SZ")
        moment = kinds.find_kind(thing).moment(thing)
        identity = (metadata.uid, metadata.generation, *moment, event.reason)
        digest = hashlib.sha256(repr((*identity, event.message)).encode()).hexdigest()[:16]
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{metadata.name}.{digest}", "namespace": metadata.namespace},
            "involvedObject": {
                "apiVersion": constants.API_VERSION,
                "kind": thing.kind,
                "name": metadata.name,
                "namespace": metadata.namespace,
                "uid": metadata.uid,
            },
            "reason": event.reason,
            "message": sanitize(event.message).encode()[:MESSAGE_BYTES].decode(errors="ignore"),
            "type": "Warning" if event.warning else "Normal",
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": self._instance,
            "action": event.reason,
            "firstTimestamp": time,
            "lastTimestamp": time,
            "count": 1,
        }


def _generation(thing: Data) -> int:
    return int(thing["metadata"].get("generation") or 0)


def _set_false(
    kind: ObjectKind, thing: Data, types: Iterable[str], reason: str, why: str, now: datetime
) -> Data:
    """The status with these conditions False; invalid conditions are replaced."""
    conditions: list[BaseCondition] = []
    for each in (thing.get("status") or {}).get("conditions") or ():
        with suppress(ValidationError):
            conditions.append(kind.condition.model_validate(each))
    rows = [(type_, "False", reason, why) for type_ in types]
    conditions = replace_conditions(
        conditions, kind.condition, rows, generation=_generation(thing), now=now
    )
    status: Data = thing.get("status") or {}
    return {**status, "conditions": [condition.to_json() for condition in conditions]}
