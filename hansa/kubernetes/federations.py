"""Federations of one namespace as the command line sees them; every refusal is a sentence."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from hansa.api import constants
from hansa.core.errors import HansaError, InputError
from hansa.kubernetes import paths
from hansa.kubernetes.client import ApiError, Data, Kube, PatchKind, connect
from hansa.kubernetes.errors import Absent, explain

MANAGER = "hansa"
"""Field manager of everything that the command line writes."""
SHOWN_PODS = 5
"""Pods that do not start, whose own Events are read too."""


@dataclass(frozen=True, kw_only=True)
class FederationView:
    """Everything that one screen shows, read at about the same time."""

    federation: Data
    """The object."""
    jobs: list[Data] = field(default_factory=list)
    """Its Jobs."""
    pods: list[Data] = field(default_factory=list)
    """Their Pods."""
    events: list[Data] = field(default_factory=list)
    """Events about it and about its Jobs and Pods."""
    notes: list[str] = field(default_factory=list)
    """What could not be read, and why."""


class Federations:
    """The federations of a namespace, or of all when the namespace is empty."""

    word = constants.SINGULAR
    """What one of them is called where a person reads it."""
    label = constants.LABEL_FEDERATION
    """On its Jobs and Pods, with its name."""
    path = staticmethod(paths.federations)
    """Where they are."""
    option = ""
    """What stands before its name on a command line."""

    def __init__(self, kube: Kube, namespace: str) -> None:
        self.kube = kube
        self.namespace = namespace

    def all(self) -> list[Data]:
        """All of them."""
        with self._explain_errors():
            return self._list(self.path(self.namespace))

    def some(self) -> list[Data]:
        """All of them, or none where the cluster does not know the kind or we may not look."""
        try:
            return self.all()
        except HansaError:
            return []

    def get(self, name: str) -> Data:
        """One of them; near names are offered where there is none."""
        with self._explain_errors(name):
            return self.kube.get(self.path(self.namespace, name))

    def find(self, name: str) -> Data | None:
        """One of them; None where there is none."""
        try:
            return self.get(name)
        except Absent:
            return None

    def apply(self, document: Mapping[str, Any], *, dry_run: bool, force: bool) -> Data:
        """Server-side apply; ApiError where other tools own fields, for the caller to judge."""
        name = str(document["metadata"]["name"])
        return self.patch(
            name,
            document,
            kind="apply",
            force=force,
            fieldValidation="Strict",
            **({"dryRun": "All"} if dry_run else {}),
        )

    def patch(self, name: str, body: Any, *, kind: PatchKind = "merge", **params: Any) -> Data:
        """Change one of them, as the field manager of the command line."""
        path = self.path(self.namespace, name)
        return self.kube.patch(path, body, kind=kind, fieldManager=MANAGER, **params)

    def change(self, name: str, body: Data) -> Data:
        """A merge patch whose refusal is a sentence."""
        with self._explain_errors(name):
            return self.patch(name, body)

    def delete(self, name: str) -> None:
        """Delete one of them; its Jobs and Pods follow by their owner."""
        with self._explain_errors(name):
            path = self.path(self.namespace, name)
            self.kube.delete(path, {"propagationPolicy": "Background"})

    def children(self, name: str, owners: set[str]) -> list[Data]:
        """Jobs and Pods with its label that belong to these objects, by uid."""
        chosen = {"labelSelector": f"{self.label}={name}"}
        with self._explain_errors(name):
            jobs = self._list(paths.jobs(self.namespace), **chosen)
            pods = self._list(paths.pods(self.namespace), **chosen)
        return [item for item in (*jobs, *pods) if owners & _list_owners(item)]

    def pods(self, name: str, labels: dict[str, str], *, cached: bool = False) -> list[Data]:
        """Pods of its Jobs; `cached` spares the apiserver where a second does not matter."""
        chosen = {self.label: name, **labels}
        selector = ",".join(f"{label}={value}" for label, value in chosen.items())
        extra = {"resourceVersion": "0"} if cached else {}
        with self._explain_errors(name):
            return self._list(paths.pods(self.namespace), labelSelector=selector, **extra)

    def look(self, name: str) -> FederationView:
        """The object with its Jobs, Pods and Events; who may read only the object sees that."""
        federation, notes = self.get(name), list[str]()
        chosen = {"labelSelector": f"{self.label}={name}"}
        jobs = self._list_optional(notes, paths.jobs(self.namespace), **chosen)
        pods = self._list_optional(notes, paths.pods(self.namespace), **chosen)
        events = []
        # Those that have not started: their own events say why.
        pending = [pod for pod in pods if (pod.get("status") or {}).get("phase") == "Pending"]
        for thing in (federation, *pending[:SHOWN_PODS]):
            about = {"fieldSelector": f"involvedObject.uid={thing['metadata'].get('uid')}"}
            events += self._list_optional(notes, paths.events(self.namespace), **about)
        notes = list(dict.fromkeys(notes))
        return FederationView(
            federation=federation, jobs=jobs, pods=pods, events=events, notes=notes
        )

    def call(self, name: str) -> str:
        """The name as a hint repeats it: with the namespace where that is not the usual one."""
        usual = self.namespace == self.kube.namespace
        named = f"{self.option}{name}"
        return named if usual else f"{named} -n {self.namespace}"

    def explain(self, error: ApiError, name: str = "") -> HansaError:
        """The sentence for a refusal."""
        return explain(error, self.kube, lambda: self._names(name), self.namespace)

    def _names(self, name: str) -> Iterator[str]:
        """Names in this namespace, then the same name in others, as far as we may look."""
        try:
            for item in self._list(self.path(self.namespace)):
                yield item["metadata"]["name"]
            for item in self._list(self.path()):
                if item["metadata"]["name"] == name:
                    yield f"{name} in namespace {item['metadata']['namespace']}"
        except ApiError:
            return

    def _list(self, path: str, **params: Any) -> list[Data]:
        items: list[Data] = self.kube.list(path, **params)["items"]
        return items

    def _list_optional(self, notes: list[str], path: str, **params: Any) -> list[Data]:
        try:
            return self._list(path, **params)
        except ApiError as error:
            if error.status != 403:
                raise self.explain(error) from error
            notes.append(self.explain(error).message)
            return []

    @contextmanager
    def _explain_errors(self, name: str = "") -> Iterator[None]:
        try:
            yield
        except ApiError as error:
            raise self.explain(error, name) from error


class FederationMembers(Federations):
    """The FederationMembers of a namespace, or of all: other objects, the same verbs."""

    word = constants.MEMBER_SINGULAR
    label = constants.LABEL_MEMBER
    path = staticmethod(paths.members)
    option = "--member "


def _list_owners(item: Data) -> set[str]:
    return {str(o.get("uid")) for o in item["metadata"].get("ownerReferences") or ()}


def open_federations(
    namespace: str | None, context: str | None, kubeconfig: str | None, *, everywhere: bool = False
) -> Federations:
    """The federations of a namespace (by default that of the context), or of all."""
    if namespace is not None and not namespace:
        raise InputError("--namespace: got an empty text, expected the name of a namespace")
    kube = connect(kubeconfig, context)
    return Federations(kube, "" if everywhere else namespace or kube.namespace)
