"""Pod templates of a federation: which are refused, and how the others merge into a Job's Pod.

The operator's defaults come first, then the federation's, then the environment's; the later wins.
Lists whose entries have names are merged by name, tolerations are added, mappings merge by key.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from functools import reduce
from typing import Any

from hansa.kubernetes.client import Data
from hansa.kubernetes.pod_policy.refusals import CLIENT, PodAllowlist
from hansa.kubernetes.pod_policy.rules import check
from hansa.kubernetes.pod_policy.shapes import Permit, PodViolation
from hansa_operator import kinds
from hansa_operator.kinds import Thing
from hansa_operator.settings import Settings, name_variable

SERVER = "server"
"""Container of the aggregator's program."""

Join = Callable[[Any, Any], Any]


def build_allowlist(settings: Settings) -> PodAllowlist:
    """What this operator lets Pod templates name."""
    return PodAllowlist(
        **{each.name: getattr(settings, f"allowed_{each.name}") for each in fields(PodAllowlist)}
    )


def list_violations(thing: Thing, settings: Settings) -> list[PodViolation]:
    """Everything in an object that no Job can be made from, by what this operator allows."""
    return kinds.find_kind(thing).refusals(thing, build_allowlist(settings))


def check_templates(settings: Settings) -> list[PodViolation]:
    """What is wrong with the operator's own templates; the allow-lists do not bind them."""
    rows = (("client_pod_template", CLIENT), ("server_pod_template", SERVER))
    return [
        refusal
        for name, container in rows
        for refusal in check(
            getattr(settings, name),
            Permit(container=container, allowed=PodAllowlist.everything()),
            name_variable(name),
        )
    ]


# -- merging --------------------------------------------------------------------------------------


def merge(base: Data, templates: Iterable[Mapping[str, Any]]) -> Data:
    """The Pod template with the others above it; they were checked before."""
    return reduce(_TEMPLATE_JOIN, map(_drop_nulls, templates), base)


def _drop_nulls(value: Any) -> Any:
    """Null stands for absent, as in Kubernetes: it takes nothing away."""
    if isinstance(value, Mapping):
        return {k: _drop_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_drop_nulls(entry) for entry in value]
    return value


def _take_later(old: Any, new: Any) -> Any:
    return new


def _merge_deep(old: Any, new: Any) -> Any:
    """Mappings merge at every depth; other values are replaced."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return new
    return old | {key: _merge_deep(old.get(key), value) for key, value in new.items()}


def _append_new(old: list[Any], new: list[Any]) -> list[Any]:
    return [*old, *(entry for entry in new if entry not in old)]


def _merge_by(key: str, join: Join = _take_later) -> Join:
    """Lists as mappings: entries with the same key are joined, in the order of their first."""

    def joined(old: list[Data], new: list[Data]) -> list[Data]:
        known = {entry.get(key): entry for entry in old}
        for entry in new:
            name = entry.get(key)
            known[name] = join(known[name], entry) if name in known else entry
        return list(known.values())

    return joined


def _merge_fields(joins: Mapping[str, Join]) -> Join:
    """A mapping whose fields are joined as the table says; the later wins where it is silent."""

    def joined(old: Data, new: Data) -> Data:
        result = dict(old)
        for key, value in new.items():
            join = joins.get(key, _take_later)
            result[key] = join(result[key], value) if key in result else value
        return result

    return joined


_CONTAINER_JOIN = _merge_fields(
    {
        "env": _merge_by("name"),
        "envFrom": _append_new,
        "resources": _merge_deep,
        "securityContext": _merge_deep,
        "volumeMounts": _merge_by("mountPath"),
    }
)
_TEMPLATE_JOIN = _merge_fields(
    {
        "metadata": _merge_deep,
        "spec": _merge_fields(
            {
                "containers": _merge_by("name", _CONTAINER_JOIN),
                "imagePullSecrets": _merge_by("name"),
                "initContainers": _merge_by("name", _CONTAINER_JOIN),
                "nodeSelector": _merge_deep,
                "resourceClaims": _merge_by("name"),
                "securityContext": _merge_deep,
                "tolerations": _append_new,
                "volumes": _merge_by("name"),
            }
        ),
    }
)
