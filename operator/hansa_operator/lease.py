"""Leader election by a Lease: one replica acts, and a silent one is replaced within seconds.

Clocks of two machines are never compared: a candidate measures with its own clock how long the
Lease has not changed. If two replicas act at once for a moment, names and resource versions keep
them from doing anything twice.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from hansa.kubernetes import paths
from hansa.kubernetes.client import ApiError, Data, Kube

MARGIN = 0.8
"""Part of its term after which a leader that could not renew stops acting."""


@dataclass(kw_only=True)
class Lease:
    """One replica's view of the Lease; every call is one or two requests and never blocks."""

    kube: Kube
    namespace: str
    name: str
    identity: str
    seconds: int
    monotonic: Callable[[], float] = time.monotonic
    _held_until: float = field(default=0.0, init=False)
    _last_change: tuple[str, float] = field(default=("", 0.0), init=False)

    def __post_init__(self) -> None:
        self._path = paths.leases(self.namespace, self.name)

    @property
    def is_held(self) -> bool:
        """Whether this replica may act now."""
        return self.monotonic() < self._held_until

    def try_hold(self) -> bool:
        """Take or renew the Lease if that is possible now; an ApiError says who did not answer."""
        asked_at = self.monotonic()
        try:
            written = self._write(self._read())
        except ApiError as error:
            if error.is_conflict:  # another replica was faster
                return self.is_held
            raise
        if written:
            self._held_until = asked_at + self.seconds * MARGIN
        return written

    def release(self) -> None:
        """Release the Lease, so that the next leader need not wait until it expires."""
        self._held_until = 0.0
        lease = self.kube.get(self._path)
        if _read_holder(lease) == self.identity:
            lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
            self.kube.replace(self._path, lease)

    def _read(self) -> Data | None:
        try:
            return self.kube.get(self._path)
        except ApiError as error:
            if error.is_not_found:
                return None
            raise

    def _write(self, lease: Data | None) -> bool:
        """Write this replica's name, unless another one holds the Lease."""
        if lease is None:
            kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
            metadata = {"name": self.name, "namespace": self.namespace}
            body = {**kind, "metadata": metadata, "spec": self._spec(0)}
            self.kube.create(paths.leases(self.namespace), body)
            return True
        holder = _read_holder(lease)
        mine = holder == self.identity
        if holder and not mine and not self._has_expired(lease):
            return False
        old = lease.get("spec") or {}
        spec = self._spec(int(old.get("leaseTransitions") or 0) + (not mine))
        if mine:
            spec["acquireTime"] = old.get("acquireTime")
        self.kube.replace(self._path, {**lease, "spec": spec})
        return True

    def _has_expired(self, lease: Data) -> bool:
        version = lease["metadata"]["resourceVersion"]
        if version != self._last_change[0]:
            self._last_change = (version, self.monotonic())
        term = (lease.get("spec") or {}).get("leaseDurationSeconds") or self.seconds
        return self.monotonic() - self._last_change[1] >= float(term)

    def _spec(self, transitions: int) -> Data:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self.seconds,
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }


def _read_holder(lease: Data) -> str:
    return str((lease.get("spec") or {}).get("holderIdentity") or "")
