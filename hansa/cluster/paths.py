"""Paths of the Kubernetes API that Hansa asks for, spelled once."""

from hansa import api


def federations(namespace: str = "", name: str = "", subresource: str = "") -> str:
    """Federations of one namespace, or of all; one of them; or its `status`."""
    return _path(f"/apis/{api.GROUP}/{api.VERSION}", namespace, api.PLURAL, name, subresource)


def members(namespace: str = "", name: str = "", subresource: str = "") -> str:
    """FederationMembers of one namespace, or of all; one of them; or its `status`."""
    root = f"/apis/{api.GROUP}/{api.VERSION}"
    return _path(root, namespace, api.MEMBER_PLURAL, name, subresource)


def jobs(namespace: str = "", name: str = "") -> str:
    """Jobs."""
    return _path("/apis/batch/v1", namespace, "jobs", name)


def pods(namespace: str = "", name: str = "", subresource: str = "") -> str:
    """Pods; `log` is a subresource of one."""
    return _path("/api/v1", namespace, "pods", name, subresource)


def events(namespace: str = "", name: str = "") -> str:
    """Events of the core API."""
    return _path("/api/v1", namespace, "events", name)


def leases(namespace: str, name: str = "") -> str:
    """Leases, which decide who acts."""
    return _path("/apis/coordination.k8s.io/v1", namespace, "leases", name)


def _path(root: str, namespace: str, *parts: str) -> str:
    scope = f"/namespaces/{namespace}" if namespace else ""
    return root + scope + "".join(f"/{part}" for part in parts if part)
