"""Paths of the Kubernetes API that Hansa asks for, spelled once."""

from hansa.api import constants


def federations(namespace: str = "", *parts: str) -> str:
    """Federations of one namespace, or of all; one of them by name; or its `status`."""
    return _path(f"/apis/{constants.API_VERSION}", namespace, constants.PLURAL, *parts)


def members(namespace: str = "", *parts: str) -> str:
    """FederationMembers of one namespace, or of all; one of them by name; or its `status`."""
    return _path(f"/apis/{constants.API_VERSION}", namespace, constants.MEMBER_PLURAL, *parts)


def jobs(namespace: str, *parts: str) -> str:
    """Jobs, or one of them."""
    return _path("/apis/batch/v1", namespace, "jobs", *parts)


def pods(namespace: str, *parts: str) -> str:
    """Pods, one of them, or its `log`."""
    return _path("/api/v1", namespace, "pods", *parts)


def events(namespace: str) -> str:
    """Events of the core API."""
    return _path("/api/v1", namespace, "events")


def leases(namespace: str, *parts: str) -> str:
    """Leases, which decide who acts."""
    return _path("/apis/coordination.k8s.io/v1", namespace, "leases", *parts)


def _path(root: str, namespace: str, *parts: str) -> str:
    scope = ("namespaces", namespace) if namespace else ()
    return "/".join((root, *scope, *parts))
