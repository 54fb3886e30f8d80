"""What the watches have shown so far: objects of Hansa with their Jobs and Pods, kept slim.

A pass plans on this and reads the API only before it acts on something being absent, so a pass
that finds nothing to do costs the API server nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Literal, NamedTuple

from hansa.api import constants
from hansa.kubernetes.client import Data
from hansa_operator.kinds import KINDS
from hansa_operator.podstate import CONSENT_VOLUME

Kind = Literal["jobs", "pods"]


class Key(NamedTuple):
    """Which object."""

    namespace: str
    name: str
    kind: str = constants.KIND


@dataclass
class Family:
    """A federation, or a member of one, and what belongs to it, as last seen."""

    owner: Data | None = None
    """The object as the API server shows it; nothing when it is not there."""
    jobs: dict[str, Data] = field(default_factory=dict)
    """Its Jobs by name."""
    pods: dict[str, Data] = field(default_factory=dict)
    """Their Pods by name."""


class Index:
    """Families by key; watches write it in one thread, passes read it in others."""

    def __init__(self) -> None:
        self._families: dict[Key, Family] = {}
        self._lock = Lock()

    def list_owners(self) -> list[Key]:
        """Every object that is there."""
        with self._lock:
            return [key for key, family in self._families.items() if family.owner]

    def get(self, key: Key) -> Family:
        """A copy that no watch changes under the reader."""
        with self._lock:
            family = self._families.get(key, Family())
            return Family(family.owner, dict(family.jobs), dict(family.pods))

    def see_owner(self, kind: str, thing: Data) -> Key:
        """Take note of an object, unless a newer one of the same UID is known already."""
        key = Key(thing["metadata"]["namespace"], thing["metadata"]["name"], kind)
        with self._lock:
            family = self._families.setdefault(key, Family())
            if not _is_older(thing, family.owner):
                # Everything but who wrote which field: that is longer than the rest.
                family.owner = {
                    **thing,
                    "metadata": _slim_metadata(thing, "generation", "annotations"),
                }
        return key

    def forget_owner(self, kind: str, thing: Data) -> Key:
        """An object was deleted; a new one of its name may be there already."""
        key = Key(thing["metadata"]["namespace"], thing["metadata"]["name"], kind)
        with self._lock:
            family = self._families.get(key)
            if family and get_uid(family.owner) in ("", get_uid(thing)):
                family.owner = None
                self._drop_if_empty(key, family)
        return key

    def see(self, kind: Kind, thing: Data) -> Key | None:
        """Take note of a Job or Pod; its label says whose it is."""
        key = find_owner_key(thing)
        if key is None:
            return None
        name = thing["metadata"]["name"]
        with self._lock:
            known = getattr(self._families.setdefault(key, Family()), kind)
            if not _is_older(thing, known.get(name)):
                known[name] = SLIM[kind](thing)
        return key

    def forget(self, kind: Kind, thing: Data) -> Key | None:
        """A Job or Pod is gone; one of the same name that came after it stays."""
        key = find_owner_key(thing)
        if key is None:
            return None
        with self._lock:
            family = self._families.get(key)
            known = getattr(family, kind) if family else {}
            name = thing["metadata"]["name"]
            if get_uid(known.get(name)) == get_uid(thing):
                del known[name]
            if family:
                self._drop_if_empty(key, family)
        return key

    def replace(self, key: Key, kind: Kind, things: Iterable[Data]) -> None:
        """All Jobs or Pods of a family, as a live list has just shown them."""
        slim = {thing["metadata"]["name"]: SLIM[kind](thing) for thing in things}
        with self._lock:
            family = self._families.setdefault(key, Family())
            setattr(family, kind, slim)
            self._drop_if_empty(key, family)

    def _drop_if_empty(self, key: Key, family: Family) -> None:
        if not (family.owner or family.jobs or family.pods):
            self._families.pop(key, None)


def find_owner_key(thing: Mapping[str, Any]) -> Key | None:
    """The object that a Job or Pod is labelled with."""
    metadata = thing.get("metadata") or {}
    labels = metadata.get("labels") or {}
    named = ((kind.name, labels.get(kind.label)) for kind in KINDS.values())
    return next((Key(metadata["namespace"], name, kind) for kind, name in named if name), None)


def slim_job(thing: Data) -> Data:
    """Without the Pod template, whose assignment is most of a Job."""
    spec = thing.get("spec") or {}
    kept = {name: spec[name] for name in ("suspend", "activeDeadlineSeconds") if name in spec}
    return {"metadata": _slim_metadata(thing), "spec": kept, "status": thing.get("status") or {}}


def slim_pod(thing: Data) -> Data:
    """What tells how a Pod is and why: node, the containers' limits, Secrets to consent, status."""
    spec = thing.get("spec") or {}
    containers = [
        {name: c[name] for name in ("name", "resources") if name in c}
        for c in spec.get("containers") or ()
    ]
    consents = [v for v in spec.get("volumes") or () if v.get("name") == CONSENT_VOLUME]
    kept = {"nodeName": spec.get("nodeName"), "containers": containers, "volumes": consents}
    return {"metadata": _slim_metadata(thing), "spec": kept, "status": thing.get("status") or {}}


SLIM = {"jobs": slim_job, "pods": slim_pod}
_KEPT = (
    *("name", "namespace", "uid", "resourceVersion", "labels", "ownerReferences"),
    *("creationTimestamp", "deletionTimestamp"),
)


def _slim_metadata(thing: Data, *more: str) -> Data:
    metadata = thing.get("metadata") or {}
    return {name: metadata[name] for name in (*_KEPT, *more) if name in metadata}


def get_uid(thing: Data | None) -> str:
    """UID of an object; empty where there is none."""
    return str(((thing or {}).get("metadata") or {}).get("uid") or "")


def _is_older(thing: Data, known: Data | None) -> bool:
    """Whether `known` is a later state of the same object: an answer may overtake the watch."""
    if known is None or get_uid(known) != get_uid(thing):
        return False
    try:
        return _version(thing) < _version(known)
    except (KeyError, ValueError):
        return False  # not comparable: the newest word counts


def _version(thing: Data) -> int:
    return int(thing["metadata"]["resourceVersion"])
