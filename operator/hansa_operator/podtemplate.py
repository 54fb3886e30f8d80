"""Pod templates of a federation: which are refused, and how the others merge into a Job's Pod.

The operator's defaults come first, then the federation's, then the environment's; the later wins.
Lists whose entries have names are merged by name, tolerations are added, mappings merge by key.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any

from hansa.kubernetes.pod_policy.refusals import CLIENT, PodAllowlist
from hansa.kubernetes.pod_policy.rules import check
from hansa.kubernetes.pod_policy.shapes import Permit, PodViolation
from hansa_operator import kinds
from hansa_operator.kinds import Thing
from hansa_operator.settings import Settings, variable

SERVER = "server"
"""Container of the aggregator's program."""

Data = dict[str, Any]
Join = Callable[[Any, Any], Any]


def allowed(settings: Settings) -> PodAllowlist:
    """What this operator lets Pod templates name."""
    return PodAllowlist(
        **{each.name: getattr(settings, f"allowed_{each.name}") for each in fields(PodAllowlist)}
    )


def refusals(thing: Thing, settings: Settings) -> list[PodViolation]:
    """Everything in an object that no Job can be made from, by what this operator allows."""
    return kinds.of(thing).refusals(thing, allowed(settings))


def settings_refusals(settings: Settings) -> list[PodViolation]:
    """What is wrong with the operator's own templates; the allow-lists do not bind them."""
    rows = (("client_pod_template", CLIENT), ("server_pod_template", SERVER))
    return [
        refusal
        for name, container in rows
        for refusal in check(
            getattr(settings, name),
            Permit(container=container, allowed=PodAllowlist.everything()),
            variable(name),
        )
    ]


# -- merging --------------------------------------------------------------------------------------


def merge(base: Data, templates: Iterable[Mapping[str, Any]]) -> Data:
    """The Pod template with the others above it; they were checked before."""
    merged = base
    for template in templates:
        merged = _TEMPLATE_JOIN(merged, _without_nulls(template))
    return merged


def _without_nulls(value: Any) -> Any:
    """Null stands for absent, as in Kubernetes: it takes nothing away."""
    if isinstance(value, Mapping):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_nulls(entry) for entry in value]
    return value


def _later(old: Any, new: Any) -> Any:
    return new


def _deep(old: Data, new: Data) -> Data:
    """Mappings merge at every depth; what is no mapping is replaced."""
    joined = dict(old)
    for key, value in new.items():
        both = isinstance(value, dict) and isinstance(joined.get(key), dict)
        joined[key] = _deep(joined[key], value) if both else value
    return joined


def _added(old: list[Any], new: list[Any]) -> list[Any]:
    return [*old, *(entry for entry in new if entry not in old)]


def _by(key: str, join: Join = _later) -> Join:
    """Lists as mappings: entries with the same key are joined, in the order of their first."""

    def joined(old: list[Data], new: list[Data]) -> list[Data]:
        known = {entry.get(key): entry for entry in old}
        for entry in new:
            name = entry.get(key)
            known[name] = join(known[name], entry) if name in known else entry
        return list(known.values())

    return joined


def _table(joins: Mapping[str, Join]) -> Join:
    """A mapping whose fields are joined as the table says; the later wins where it is silent."""

    def joined(old: Data, new: Data) -> Data:
        result = dict(old)
        for key, value in new.items():
            join = joins.get(key, _later)
            result[key] = join(result[key], value) if key in result else value
        return result

    return joined


_CONTAINER_JOIN = _table(
    {
        "env": _by("name"),
        "envFrom": _added,
        "resources": _deep,
        "securityContext": _deep,
        "volumeMounts": _by("mountPath"),
    }
)
_TEMPLATE_JOIN = _table(
    {
        "metadata": _deep,
        "spec": _table(
            {
                "containers": _by("name", _CONTAINER_JOIN),
                "imagePullSecrets": _by("name"),
                "initContainers": _by("name", _CONTAINER_JOIN),
                "nodeSelector": _deep,
                "resourceClaims": _by("name"),
                "securityContext": _deep,
                "tolerations": _added,
                "volumes": _by("name"),
            }
        ),
    }
)
