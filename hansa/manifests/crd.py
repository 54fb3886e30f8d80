"""The CustomResourceDefinitions, made from the models so that they cannot differ.

Kubernetes takes a *structural* schema: every node has a type, nothing is nullable by a union, and
rules between fields are CEL. `targetModules` is text or a list, which no structural schema can
say: it is left free here and checked by the operator.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hansa.api import constants
from hansa.api.member_spec import MemberSpec
from hansa.api.member_status import SiloStatus
from hansa.api.spec import FederationSpec
from hansa.api.status import FederationStatus
from hansa.core.model import Model
from hansa.manifests import cel
from hansa.validation.json_schema import Schema, flatten_schema

FREE = "x-kubernetes-preserve-unknown-fields"
RULES = "x-kubernetes-validations"
LIST_KEYS: dict[tuple[str, ...], str] = {
    ("spec", "environments"): "name",
    ("spec", "probes"): "name",
    ("status", "environments"): "name",
    ("status", "conditions"): "type",
    ("status", "current", "environments"): "name",
    ("status", "members"): "name",
}
"""Lists whose entries are known by a key, so that two writers and CEL can tell them apart."""

_DROPPED = ("title", "additionalProperties", "patternProperties", "propertyNames")


@dataclass(frozen=True, kw_only=True)
class CrdDefinition:
    """What one definition is made from."""

    kind: str
    plural: str
    singular: str
    short_name: str
    description: str
    spec: type[Model]
    status: type[Model]
    columns: tuple[tuple[str, str, str, int], ...]
    """Name, type, path and priority of what `kubectl get` prints; 1: only with `-o wide`."""
    add_rules: Callable[[Schema], None]
    """Adds the rules between its fields to the schema of its spec."""


def _add_federation_rules(spec: Schema) -> None:
    spec[RULES] = list(cel.FEDERATION_RULES)
    spec["properties"]["environments"]["items"][RULES] = cel.list_environment_rules()


_AGE = ("Age", "date", ".metadata.creationTimestamp", 0)

FEDERATION = CrdDefinition(
    kind=constants.KIND,
    plural=constants.PLURAL,
    singular=constants.SINGULAR,
    short_name=constants.SHORT_NAME,
    description="Several environments make one shared agent better, round by round.",
    spec=FederationSpec,
    status=FederationStatus,
    columns=(
        ("Phase", "string", ".status.phase", 0),
        ("Round", "integer", ".status.round", 0),
        ("Updates", "string", ".status.updates", 0),
        ("Success", "string", ".status.success", 0),
        ("Suspend", "boolean", ".spec.suspend", 1),
        _AGE,
    ),
    add_rules=_add_federation_rules,
)
MEMBER = CrdDefinition(
    kind=constants.MEMBER_KIND,
    plural=constants.MEMBER_PLURAL,
    singular=constants.MEMBER_SINGULAR,
    short_name=constants.MEMBER_SHORT_NAME,
    description="One silo's part in a federation that somebody else coordinates.",
    spec=MemberSpec,
    status=SiloStatus,
    columns=(
        ("Federation", "string", ".spec.federation.name", 0),
        ("Phase", "string", ".status.phase", 0),
        ("Round", "integer", ".status.round", 0),
        ("Order", "integer", ".status.current.order.serial", 0),
        ("Success", "string", ".status.success", 0),
        ("Connected", "string", '.status.conditions[?(@.type=="Connected")].status', 1),
        ("Allowed", "string", '.status.conditions[?(@.type=="Allowed")].status', 1),
        _AGE,
    ),
    add_rules=lambda spec: spec.update({RULES: cel.list_member_rules()}),
)
KINDS = (FEDERATION, MEMBER)


def build_crd(kind: CrdDefinition = FEDERATION) -> dict[str, Any]:
    """The whole object, ready for `kubectl apply`."""
    names = {
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
        "plural": kind.plural,
        "singular": kind.singular,
        "shortNames": [kind.short_name],
        "categories": [constants.CATEGORY],
    }
    version = {
        "name": constants.VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [_column(*column) for column in kind.columns],
        "schema": {"openAPIV3Schema": build_schema(kind)},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{constants.GROUP}"},
        "spec": {
            "group": constants.GROUP,
            "names": names,
            "scope": "Namespaced",
            "versions": [version],
        },
    }


def _column(name: str, type_: str, path: str, priority: int) -> dict[str, Any]:
    column = {"name": name, "type": type_, "jsonPath": path}
    return {**column, "priority": priority} if priority else column


def build_schema(kind: CrdDefinition = FEDERATION) -> Schema:
    """The structural schema of a kind."""
    spec = _make_structural(
        flatten_schema(kind.spec), ("spec",), _list_defaulted_sections(kind.spec)
    )
    status = _make_structural(_drop_defaults(flatten_schema(kind.status)), ("status",))
    kind.add_rules(spec)
    return {
        "type": "object",
        "description": kind.description,
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
        RULES: cel.list_name_rules(),
    }


def _list_defaulted_sections(model: type[Model]) -> frozenset[str]:
    """Sections that an API server may bring into being: not one that may be absent for good."""
    fields = model.model_fields.items()
    return frozenset(
        field.alias or name
        for name, field in fields
        if field.default is not None and not field.is_required()
    )


# -- structure ------------------------------------------------------------------------------------


def _make_structural(
    node: Schema, path: tuple[str, ...], brought: frozenset[str] = frozenset()
) -> Schema:
    if not node or "anyOf" in node or "oneOf" in node:
        kept: Schema = {key: node[key] for key in ("description", "default") if key in node}
        return {**kept, FREE: True}
    made = {key: value for key, value in node.items() if key not in _DROPPED}
    if "const" in made:
        made["enum"] = [made.pop("const")]
    _move_exclusive_bounds(made)
    if made.get("type") == "array":
        made["items"] = _make_structural(node.get("items", {}), (*path, "[]"))
        if path in LIST_KEYS:
            made["x-kubernetes-list-type"] = "map"
            made["x-kubernetes-list-map-keys"] = [LIST_KEYS[path]]
    elif made.get("type") == "object":
        _structure_object(made, node, path, brought)
    return made


def _structure_object(
    made: Schema, node: Schema, path: tuple[str, ...], brought: frozenset[str]
) -> None:
    entries = next(iter(node.get("patternProperties", {}).values()), None)
    entries = entries or node.get("additionalProperties")
    if "properties" in node:
        is_open = node.get("additionalProperties") is True
        fields = _drop_defaults(node["properties"], names=True) if is_open else node["properties"]
        made["properties"] = {
            name: _make_structural(field, (*path, name), brought) for name, field in fields.items()
        }
        if is_open:  # a default would be there for whoever does not read it, too
            made[FREE] = True
        _default_object(made, path, brought)
    elif isinstance(entries, dict):
        made["additionalProperties"] = _make_structural(entries, path)
    else:
        made[FREE] = True


def _default_object(made: Schema, path: tuple[str, ...], brought: frozenset[str]) -> None:
    """Let the fields of an absent object get their defaults, as the models give them."""
    if path[0] != "spec" or len(path) != 2 or path[1] not in brought:
        return
    if any("default" in field for field in made["properties"].values()):
        made.setdefault("default", {})


def _move_exclusive_bounds(node: Schema) -> None:
    """OpenAPI 3.0 marks a bound as exclusive; JSON schema gives it a name of its own."""
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if exclusive in node:
            node[bound] = node[exclusive]
            node[exclusive] = True


def _drop_defaults(node: Any, *, names: bool = False) -> Any:
    """A status is written whole: what the operator left out must stay out."""
    if isinstance(node, list):
        return [_drop_defaults(entry) for entry in node]
    if not isinstance(node, dict):
        return node
    return {
        key: _drop_defaults(value, names=key == "properties" and not names)
        for key, value in node.items()
        if names or key != "default"
    }
