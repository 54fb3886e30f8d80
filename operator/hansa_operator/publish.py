"""What the operator says: the status first, then Events; what was published has happened."""

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from hansa.api import constants
from hansa.api.conditions import BaseCondition, observed
from hansa.api.jobs import Event
from hansa.core import logs
from hansa.core.errors import HansaError, InputError
from hansa.core.sanitize import visible
from hansa.kubernetes.client import ApiError, Kube
from hansa_operator import kinds
from hansa_operator.children import named
from hansa_operator.index import Index, Key
from hansa_operator.kinds import KINDS, ObjectKind, Thing

COMPONENT = "hansa-operator"
MESSAGE_BYTES = 1024
"""Longest message that the API server takes in an Event."""

Data = dict[str, Any]
log = logs.get("operator")


class Publisher:
    """Writes statuses with the version they were planned on, and Events that nobody waits for."""

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
        """See what there is of an object: a watch may have missed that it changed, or went."""
        there = list(named(self._kube, KINDS[key.kind].path(key.namespace), key.name))
        for newest in there:
            self._index.see_owner(key.kind, newest)
        if known and not there:
            self._index.forget_owner(key.kind, known)

    def reject(self, key: Key, thing: Data, why: str, now: datetime) -> None:
        """Say in the conditions why an object cannot be planned for; its Jobs are left alone.

        The rest of the status stays as it is, even if this version cannot read it.
        """
        kind, generation = KINDS[key.kind], _generation(thing)
        old: Data = thing.get("status") or {}
        conditions = _refused(kind, thing, kind.rejected, "Invalid", why, now)
        new = {**old, "phase": "Failed", "conditions": conditions, "observedGeneration": generation}
        if new != old:
            self.write_status(key, thing, new)
            log.warning("invalid", **{kind.word: f"{key.namespace}/{key.name}"}, message=why)

    def admit(self, key: Key, thing: Data | None, fault: Exception, now: datetime) -> None:
        """Say in a condition that the operator failed, which is no fault of the object.

        The phase and everything else stay as they are: the next pass may succeed. The text of the
        error is in the log alone, since one that differs each time would be a write each time.
        """
        if thing is None:
            return
        old: Data = thing.get("status") or {}
        why = (
            f"the operator failed with {type(fault).__name__} and tries again; this is a fault of "
            "Hansa, not of this object: the operator's log has the traceback"
        )
        kind = KINDS[key.kind]
        conditions = _refused(kind, thing, kind.rejected[-1:], "OperatorError", why, now)
        new = {**old, "conditions": conditions}
        if new != old:
            with suppress(HansaError):  # the fault itself is raised, logged and tried again
                self.write_status(key, thing, new)

    def tell(self, thing: Thing, events: Iterable[Event], now: datetime) -> None:
        """Make Events of a plan; losing one is no reason to stop its object."""
        metadata = thing.metadata
        where = {kinds.of(thing).word: f"{metadata.namespace}/{metadata.name}"}
        for event in events:
            say = log.warning if event.warning else log.info
            say(event.reason, **where, message=event.message)
            try:
                path = f"/api/v1/namespaces/{metadata.namespace}/events"
                self._kube.create(path, self._manifest(thing, event, now))
            except ApiError as error:
                if not error.is_conflict:  # published already, before a crash
                    log.warning("event-lost", **where, message=error.message)

    def _manifest(self, thing: Thing, event: Event, now: datetime) -> Data:
        metadata, time = thing.metadata, now.strftime("%Y-%m-%dT%H:%M:%SZ")
        moment = kinds.of(thing).moment(thing)
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
            "message": visible(event.message).encode()[:MESSAGE_BYTES].decode(errors="ignore"),
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


def _refused(
    kind: ObjectKind, thing: Data, types: Iterable[str], reason: str, why: str, now: datetime
) -> list[Data]:
    """The conditions with these False; those that cannot be read are said anew."""
    conditions: list[BaseCondition] = []
    for each in (thing.get("status") or {}).get("conditions") or ():
        with suppress(ValidationError):
            conditions.append(kind.condition.model_validate(each))
    for type_ in types:
        new = kind.condition(
            type=type_,
            status="False",
            reason=reason,
            message=why,
            last_transition_time=now,
            observed_generation=_generation(thing),
        )
        conditions = observed(conditions, new)
    return [condition.to_json() for condition in conditions]
