"""Logs of a Federation's Pods, in the order of the rounds or followed through all of them."""

import queue
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from hansa.api import constants
from hansa.kubernetes import paths
from hansa.kubernetes.client import ApiError, Data
from hansa.kubernetes.errors import ClusterError
from hansa.kubernetes.federations import Federations
from hansa.kubernetes.state import get_status, has_failed, has_succeeded

CONTAINERS = ("client", "server")
"""The container of ours in a Pod; what else is there came from the user's template."""
ORDER = ("client", "aggregator", "evaluate")
"""How the Jobs of a round follow one another."""
SERVERS = ("aggregator", "courier")
"""Roles of Jobs that belong to no environment."""
LOOK_SECONDS = 1.0
SILENCE_SECONDS = 3600.0


class LogLine(NamedTuple):
    """One line of a log."""

    job: str
    """Job whose Pod said it."""
    text: str
    """What it said."""


@dataclass(frozen=True, kw_only=True)
class LogSelection:
    """Whose logs are asked for."""

    environment: str | None = None
    """One environment, `aggregator` or `courier`; None: all."""
    round: int | None = None
    """One round; None: all."""

    def labels(self) -> dict[str, str]:
        """The labels that these Pods have."""
        labels = {} if self.round is None else {constants.LABEL_ROUND: str(self.round)}
        if self.environment:
            role, name = constants.LABEL_ROLE, constants.LABEL_ENVIRONMENT
            labels[role if self.environment in SERVERS else name] = self.environment
        return labels


def sort_pods(pods: list[Data]) -> list[Data]:
    """By round, place in it, environment, attempt and age."""
    return sorted(pods, key=_sort_key)


def _sort_key(pod: Data) -> tuple[int, int, str, int, str]:
    labels = pod["metadata"].get("labels") or {}
    role = labels.get(constants.LABEL_ROLE, "")
    return (
        _parse_number(labels.get(constants.LABEL_ROUND)),
        ORDER.index(role) if role in ORDER else len(ORDER),
        labels.get(constants.LABEL_ENVIRONMENT, ""),
        _parse_number(labels.get(constants.LABEL_ATTEMPT)),
        str(pod["metadata"].get("creationTimestamp")),
    )


def _parse_number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 0


def find_job_name(pod: Data) -> str:
    """The Job that owns a Pod."""
    owners = pod["metadata"].get("ownerReferences") or ()
    names = [str(owner["name"]) for owner in owners if owner.get("kind") == "Job"]
    return names[0] if names else str(pod["metadata"]["name"])


def has_started(pod: Data) -> bool:
    """Whether our container runs or has ended, so that there is a log."""
    for container in (pod.get("status") or {}).get("containerStatuses") or ():
        if container.get("name") in CONTAINERS:
            return bool({"running", "terminated"} & (container.get("state") or {}).keys())
    return False


def read(federations: Federations, pod: Data) -> Iterator[LogLine]:
    """The log of one Pod so far."""
    try:
        for raw in federations.kube.lines(
            _build_log_path(federations, pod), container=_choose_container(pod)
        ):
            yield LogLine(find_job_name(pod), raw.decode(errors="replace"))
    except ApiError as error:
        if not error.is_not_found and error.status != 400:
            raise federations.explain(error) from error


def _build_log_path(federations: Federations, pod: Data) -> str:
    return paths.pods(federations.namespace, pod["metadata"]["name"], "log")


def _choose_container(pod: Data) -> str:
    names = [c["name"] for c in (pod.get("spec") or {}).get("containers") or ()]
    return next((name for name in CONTAINERS if name in names), names[0] if names else "")


# -- following ------------------------------------------------------------------------------------


@dataclass
class Follower:
    """All chosen Pods at once, one thread each, until the federation has ended."""

    federations: Federations
    name: str
    choice: LogSelection
    lines: "queue.Queue[LogLine]" = field(default_factory=queue.Queue)
    readers: dict[str, threading.Thread] = field(default_factory=dict)

    def run(self) -> Iterator[LogLine]:
        """Lines as they come; ends when the federation has, and all its logs are read."""
        while True:
            ended = self._has_ended()
            self._start_readers()
            yield from self._drain_lines()
            if ended and not any(reader.is_alive() for reader in self.readers.values()):
                yield from self._drain_lines(0.0)
                return

    def _has_ended(self) -> bool:
        try:
            federation = self.federations.find(self.name)
        except ClusterError:  # away for a while: the readers try again too
            return False
        if federation is None:
            return True
        if self.federations.word == constants.MEMBER_SINGULAR:  # a failed member is retried
            return get_status(federation).get("phase") in ("Left", "Suspended")
        return has_succeeded(federation) or has_failed(federation)

    def _start_readers(self) -> None:
        try:
            pods = self.federations.pods(self.name, self.choice.labels(), cached=True)
        except ClusterError:
            return
        for pod in sort_pods(pods):
            uid = str(pod["metadata"].get("uid"))
            if uid not in self.readers and has_started(pod):
                self.readers[uid] = threading.Thread(target=self._follow, args=(pod,), daemon=True)
                self.readers[uid].start()

    def _drain_lines(self, seconds: float = LOOK_SECONDS) -> Iterator[LogLine]:
        deadline = time.monotonic() + seconds
        while True:
            try:
                yield self.lines.get(timeout=max(0.001, deadline - time.monotonic()))
            except queue.Empty:
                return

    def _follow(self, pod: Data) -> None:
        """One Pod's log to its end; after a lost connection it continues behind the last line."""
        newest, job = "", find_job_name(pod)
        while True:
            since = {"sinceTime": f"{newest[:19]}Z"} if newest else {}
            try:
                for raw in self.federations.kube.lines(
                    _build_log_path(self.federations, pod),
                    silence_seconds=SILENCE_SECONDS,
                    container=_choose_container(pod),
                    follow=True,
                    timestamps=True,
                    **since,
                ):
                    stamp, _, text = raw.decode(errors="replace").partition(" ")
                    if stamp > newest:
                        self.lines.put(LogLine(job, text))
                        newest = stamp
                return
            except ApiError as error:
                if not error.may_pass:
                    return
                time.sleep(LOOK_SECONDS)
