"""Errors of the apiserver as sentences: who may not do what, and what to try."""

import difflib
import re
from collections.abc import Callable, Iterable

from hansa.api import constants
from hansa.core.errors import HansaError, InputError
from hansa.core.exits import Exit
from hansa.kubernetes.client import ApiError, Kube

INSTALL = "helm install hansa charts/hansa --namespace hansa-system --create-namespace"
_FORBIDDEN = re.compile(
    r'User "([^"]*)" cannot (\S+) resource "([^"]*)"(?: in API group "([^"]*)")?'
)
_NAMESPACE = re.compile(r'in the namespace "([^"]*)"')


class ClusterError(HansaError):
    """The cluster did not answer, or does not let us; the same command may work later."""

    exit = Exit.CRASHED


class Absent(InputError):
    """There is no such object."""


def explain(
    error: ApiError,
    kube: Kube,
    near: Callable[[], Iterable[str]] = tuple,
    namespace: str = "",
) -> HansaError:
    """The sentence for an answer of the apiserver; `near` finds names to offer instead."""
    if error.status == 0:
        return _explain_unreachable(error, kube)
    if error.status == 404:
        return _explain_not_found(error, near, namespace)
    handler = {
        401: _explain_unknown_user,
        403: _explain_forbidden,
        409: _explain_conflict,
        422: _explain_invalid,
    }.get(error.status)
    if handler:
        return handler(error, kube)
    if error.status == 400:
        return InputError(f"the apiserver refused it: {error.message}")
    hint = "it may be temporary: try again in a while"
    return ClusterError(f"the apiserver answered {error.status}: {error.message}", hint)


def _describe_context(kube: Kube) -> str:
    return f"context {kube.context}" if kube.context else "the Pod's own account"


def _explain_unreachable(error: ApiError, kube: Kube) -> HansaError:
    why = error.message.removeprefix(f"{kube.server}: ")
    if error.reason == "Untrusted":
        return ClusterError(
            f"{kube.server}: its certificate is not trusted ({why})",
            hint=f"the cluster of {_describe_context(kube)} needs its certificate-authority in the "
            "kubeconfig",
        )
    return ClusterError(
        f"{kube.server}: the cluster does not answer ({why})",
        hint=f"that is the address of {_describe_context(kube)}; `kubectl cluster-info` should "
        "answer too",
    )


def _explain_unknown_user(error: ApiError, kube: Kube) -> HansaError:
    return ClusterError(
        f"{kube.server}: the cluster does not know these credentials ({error.message})",
        hint=f"they are those of {_describe_context(kube)}; log in again the way your cluster "
        "asks for",
    )


def _explain_forbidden(error: ApiError, kube: Kube) -> HansaError:
    match, place = _FORBIDDEN.search(error.message), _NAMESPACE.search(error.message)
    if not match:  # a quota or an admission policy speaks for itself
        return ClusterError(f"the apiserver refused it: {error.message}")
    user, verb, resource, group = match.groups()
    kind = f"{resource}.{group}" if group else resource
    scope = f"-n {place[1]}" if place else "-A"
    where = f"in namespace {place[1]}" if place else "in all namespaces"
    return ClusterError(
        f"{user} may not {verb} {kind} {where}",
        hint=f"ask for a Role that allows it; to see: kubectl auth can-i {verb} {kind} {scope}",
    )


def _explain_not_found(
    error: ApiError, near: Callable[[], Iterable[str]], namespace: str
) -> HansaError:
    details = error.details
    if not details.get("name"):
        return InputError(
            "Hansa is not installed on this cluster (it knows no Federations)",
            hint=f"{INSTALL}; or choose another cluster with --context",
        )
    if details.get("kind") == "namespaces":
        return Absent(f"--namespace: got {details['name']}, which does not exist")
    words = {
        constants.PLURAL: constants.SINGULAR,
        constants.MEMBER_PLURAL: constants.MEMBER_SINGULAR,
    }
    kind = words.get(str(details.get("kind")), details.get("kind"))
    where = f" in namespace {namespace}" if namespace else ""
    hint = suggest_names(details["name"], near())
    return Absent(f"{kind} {details['name']}: there is none{where}", hint=hint)


def suggest_names(name: str, known: Iterable[str]) -> str:
    """A hint with the names that are most like the wrong one."""
    names = list(known)
    close = difflib.get_close_matches(name.partition("/")[0], names, n=3) or names[:5]
    return f"there is: {', '.join(close)}" if close else "`hansa status -A` shows all there are"


def _explain_conflict(error: ApiError, kube: Kube) -> HansaError:
    fields = list_conflicts(error)
    if not fields:
        return ClusterError(
            f"somebody else changed it at the same time ({error.message})", hint="run it again"
        )
    owned = "; ".join(f"{path} belongs to {owner}" for path, owner in fields)
    return InputError(
        f"other tools have set fields of this manifest: {owned}",
        hint="leave them out, or take them over with --force-conflicts",
    )


def list_conflicts(error: ApiError) -> list[tuple[str, str]]:
    """Fields of a server-side apply that another manager has set, as (path, manager)."""
    fields = []
    for cause in error.details.get("causes") or ():
        if cause.get("reason") == "FieldManagerConflict":
            match = re.search(r'conflict with "([^"]*)"', str(cause.get("message") or ""))
            path = str(cause.get("field") or "").lstrip(".")
            fields.append((path, match[1] if match else "another tool"))
    return fields


def _explain_invalid(error: ApiError, kube: Kube) -> HansaError:
    """The field that does not fit first, the paths of the others as a hint."""
    causes = [
        (str(cause.get("field")), str(cause.get("message")))
        for cause in error.details.get("causes") or ()
        if cause.get("field") not in (None, "<nil>")
    ]
    if not causes:
        return InputError(f"the apiserver refused it: {error.message}")
    (field, message), *rest = dict(causes).items()
    more = f"and {len(rest)} more: {', '.join(path for path, _ in rest[:5])}" if rest else ""
    why = message.rpartition(f"{field}: ")[2]  # our own rules name the field themselves
    return InputError(f"{field}: {why}", hint=more)
