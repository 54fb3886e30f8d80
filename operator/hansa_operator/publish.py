"""What the operator says: the status first, then Events; what was told has happened."""

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from hansa import api, logs
from hansa.cluster.client import ApiError, Kube
from hansa.errors import HansaError, InputError
from hansa.jobs import Event
from hansa.status import Condition, Federation, set_condition
from hansa.visible import visible
from hansa_operator.children import federations_path, named
from hansa_operator.index import Index, Key

COMPONENT = "hansa-operator"
MESSAGE_BYTES = 1024
"""Longest message that the API server takes in an Event."""

REJECTED: tuple[api.ConditionType, ...] = ("Accepted", "Progressing")

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
        collection = federations_path(key.namespace)
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
        self._index.see_federation(stored)

    def look(self, key: Key, known: Data | None) -> None:
        """See what there is of a federation: a watch may have missed that it changed, or went."""
        there = list(named(self._kube, federations_path(key.namespace), key.name))
        for newest in there:
            self._index.see_federation(newest)
        if known and not there:
            self._index.forget_federation(known)

    def reject(self, key: Key, thing: Data, why: str, now: datetime) -> None:
        """Say in the conditions why an object cannot be planned for; its Jobs are left alone.

        The rest of the status stays as it is, even if this version cannot read it.
        """
        generation = int(thing["metadata"].get("generation") or 0)
        old: Data = thing.get("status") or {}
        conditions = _conditions(old)
        for type_ in REJECTED:
            conditions = set_condition(
                conditions, type_, "False", "Invalid", why, generation=generation, now=now
            )
        rejected = {"phase": "Failed", "conditions": [c.to_json() for c in conditions]}
        new = {**old, **rejected, "observedGeneration": generation}
        if new != old:
            self.write_status(key, thing, new)
            log.warning("invalid", federation=f"{key.namespace}/{key.name}", message=why)

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
        generation = int(thing["metadata"].get("generation") or 0)
        conditions = set_condition(
            _conditions(old),
            "Progressing",
            "False",
            "OperatorError",
            why,
            generation=generation,
            now=now,
        )
        new = {**old, "conditions": [c.to_json() for c in conditions]}
        if new != old:
            with suppress(HansaError):  # the fault itself is raised, logged and tried again
                self.write_status(key, thing, new)

    def tell(self, federation: Federation, events: Iterable[Event], now: datetime) -> None:
        """Make Events of a plan; losing one is no reason to stop a federation."""
        metadata = federation.metadata
        for event in events:
            where = f"{metadata.namespace}/{metadata.name}"
            say = log.warning if event.warning else log.info
            say(event.reason, federation=where, message=event.message)
            try:
                path = f"/api/v1/namespaces/{metadata.namespace}/events"
                self._kube.create(path, self._manifest(federation, event, now))
            except ApiError as error:
                if not error.is_conflict:  # told already, before a crash
                    log.warning("event-lost", federation=where, message=error.message)

    def _manifest(self, federation: Federation, event: Event, now: datetime) -> Data:
        metadata, time = federation.metadata, now.strftime("%Y-%m-%dT%H:%M:%SZ")
        status = federation.status
        attempts = [e.attempt for e in status.current.environments] if status.current else []
        identity = (metadata.uid, metadata.generation, status.round, attempts, event.reason)
        digest = hashlib.sha256(repr((*identity, event.message)).encode()).hexdigest()[:16]
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{metadata.name}.{digest}", "namespace": metadata.namespace},
            "involvedObject": {
                "apiVersion": api.API_VERSION,
                "kind": api.KIND,
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


def _conditions(status: Data) -> list[Condition]:
    """The conditions that can be read; others are said anew."""
    conditions = []
    for each in status.get("conditions") or ():
        with suppress(ValidationError):
            conditions.append(Condition.model_validate(each))
    return conditions
