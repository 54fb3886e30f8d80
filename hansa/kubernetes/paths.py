"""Paths of the Kubernetes API that Hansa asks for, spelled once."""

from collections.abc import Callable

from hansa.api import constants


def _build_collection(root: str, plural: str) -> Callable[..., str]:
    def path(namespace: str = "", *parts: str) -> str:
        scope = ("namespaces", namespace) if namespace else ()
        return "/".join((root, *scope, plural, *parts))

    return path


federations = _build_collection(f"/apis/{constants.API_VERSION}", constants.PLURAL)
"""Federations of one namespace, or of all; one of them by name; or its `status`."""
members = _build_collection(f"/apis/{constants.API_VERSION}", constants.MEMBER_PLURAL)
"""FederationMembers, likewise."""
jobs = _build_collection("/apis/batch/v1", "jobs")
"""Jobs, or one of them."""
pods = _build_collection("/api/v1", "pods")
"""Pods, one of them, or its `log`."""
events = _build_collection("/api/v1", "events")
"""Events of the core API."""
leases = _build_collection("/apis/coordination.k8s.io/v1", "leases")
"""Leases, which decide who acts."""
