"""Leader election by a Lease: one replica acts, and a silent one is replaced within seconds.

Clocks of two machines are never compared: a candidate measures with its own clock how long the
Lease has not changed. Should two replicas act at once for a moment all the same, names and
resource versions keep them from doing anything twice.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime

from hansa.kubernetes import paths
from hansa.kubernetes.client import ApiError, Data, Kube

MARGIN = 0.8
"""Part of its term after which a leader that could not renew stops acting."""


class Lease:
    """One replica's view of the Lease; every call is one or two requests, none of them waits."""

    def __init__(
        self,
        kube: Kube,
        *,
        namespace: str,
        name: str,
        identity: str,
        seconds: int,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kube = kube
        self._collection = paths.leases(namespace)
        self._path = paths.leases(namespace, name)
        self._metadata = {"name": name, "namespace": namespace}
        self._identity = identity
        self._seconds = seconds
        self._monotonic = monotonic
        self._held_until = 0.0
        self._last_change: tuple[str, float] = ("", 0.0)

    @property
    def is_held(self) -> bool:
        """Whether this replica may act now."""
        return self._monotonic() < self._held_until

    def try_hold(self) -> bool:
        """Take or renew the Lease if that is possible now; an ApiError says who did not answer."""
        asked_at = self._monotonic()
        try:
            self._write(self._kube.get(self._path))
        except ApiError as error:
            if error.is_not_found:
                return self._create(asked_at)
            if error.is_conflict:  # somebody else was quicker
                return self.is_held
            raise
        except _Held:
            return False
        self._held_until = asked_at + self._seconds * MARGIN
        return True

    def release(self) -> None:
        """Give the Lease away, so that the next leader need not wait for its end."""
        self._held_until = 0.0
        lease = self._kube.get(self._path)
        if _holder(lease) == self._identity:
            lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
            self._kube.replace(self._path, lease)

    def _create(self, asked_at: float) -> bool:
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": self._metadata,
            "spec": self._spec(0),
        }
        try:
            self._kube.create(self._collection, body)
        except ApiError as error:
            if error.is_conflict:
                return False
            raise
        self._held_until = asked_at + self._seconds * MARGIN
        return True

    def _write(self, lease: Data) -> None:
        holder = _holder(lease)
        mine = holder == self._identity
        if holder and not mine and not self._has_expired(lease):
            raise _Held
        old = lease.get("spec") or {}
        spec = self._spec(int(old.get("leaseTransitions") or 0) + (not mine))
        if mine:
            spec["acquireTime"] = old.get("acquireTime")
        self._kube.replace(self._path, {**lease, "spec": spec})

    def _has_expired(self, lease: Data) -> bool:
        version = lease["metadata"]["resourceVersion"]
        if version != self._last_change[0]:
            self._last_change = (version, self._monotonic())
        term = (lease.get("spec") or {}).get("leaseDurationSeconds") or self._seconds
        return self._monotonic() - self._last_change[1] >= float(term)

    def _spec(self, transitions: int) -> Data:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": self._seconds,
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }


class _Held(Exception):
    """Another replica holds the Lease."""


def _holder(lease: Data) -> str:
    return str((lease.get("spec") or {}).get("holderIdentity") or "")
