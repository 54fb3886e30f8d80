"""The CustomResourceDefinition, made from the models so that the two cannot differ.

Kubernetes takes a *structural* schema: every node has a type, nothing is nullable by a union, and
rules between fields are CEL. `targetModules` is text or a list, which no structural schema can
say: it is left free here and checked by the operator.
"""

from typing import Any

from hansa import api
from hansa.aggregation import KRUM
from hansa.schema import Schema, flat
from hansa.spec import (
    MAX_FEDERATION_NAME,
    RESERVED_ENVIRONMENT_NAMES,
    FederationSpec,
    Metadata,
)
from hansa.status import FederationStatus
from hansa.training import COMPARING

FREE = "x-kubernetes-preserve-unknown-fields"
RULES = "x-kubernetes-validations"
LIST_KEYS: dict[tuple[str, ...], str] = {
    ("spec", "environments"): "name",
    ("status", "environments"): "name",
    ("status", "conditions"): "type",
    ("status", "current", "environments"): "name",
    ("status", "members"): "name",
}
"""Lists whose entries are known by a key, so that two writers and CEL can tell them apart."""

_DROPPED = ("title", "additionalProperties")


def crd() -> dict[str, Any]:
    """The whole object, ready for `kubectl apply`."""
    names = {
        "kind": api.KIND,
        "listKind": f"{api.KIND}List",
        "plural": api.PLURAL,
        "singular": api.SINGULAR,
        "shortNames": [api.SHORT_NAME],
        "categories": [api.CATEGORY],
    }
    version = {
        "name": api.VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": _columns(),
        "schema": {"openAPIV3Schema": schema()},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{api.PLURAL}.{api.GROUP}"},
        "spec": {
            "group": api.GROUP,
            "names": names,
            "scope": "Namespaced",
            "versions": [version],
        },
    }


def _columns() -> list[dict[str, Any]]:
    return [
        {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
        {"name": "Round", "type": "integer", "jsonPath": ".status.round"},
        {"name": "Updates", "type": "string", "jsonPath": ".status.updates"},
        {"name": "Success", "type": "string", "jsonPath": ".status.success"},
        {"name": "Suspend", "type": "boolean", "jsonPath": ".spec.suspend", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]


def schema() -> Schema:
    """The structural schema of a Federation."""
    spec = _structural(flat(FederationSpec), ("spec",))
    status = _structural(_without_defaults(flat(FederationStatus)), ("status",))
    spec[RULES] = _spec_rules()
    spec["properties"]["environments"]["items"][RULES] = _environment_rules()
    return {
        "type": "object",
        "description": "Several environments make one shared agent better, round by round.",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
        RULES: _name_rules(),
    }


# -- structure ------------------------------------------------------------------------------------


def _structural(node: Schema, path: tuple[str, ...]) -> Schema:
    if "anyOf" in node:
        kept: Schema = {key: node[key] for key in ("description", "default") if key in node}
        return {**kept, FREE: True}
    made = {key: value for key, value in node.items() if key not in _DROPPED}
    if "const" in made:
        made["enum"] = [made.pop("const")]
    _move_exclusive_bounds(made)
    if made.get("type") == "array":
        made["items"] = _structural(node.get("items", {}), (*path, "[]"))
        _key_list(made, path)
    elif made.get("type") == "object":
        _structure_object(made, node, path)
    return made


def _structure_object(made: Schema, node: Schema, path: tuple[str, ...]) -> None:
    if "properties" in node:
        made["properties"] = {
            name: _structural(field, (*path, name)) for name, field in node["properties"].items()
        }
        _default_object(made, path)
    elif isinstance(node.get("additionalProperties"), dict):
        made["additionalProperties"] = _structural(node["additionalProperties"], path)
    else:
        made[FREE] = True


def _default_object(made: Schema, path: tuple[str, ...]) -> None:
    """Let the fields of an absent object get their defaults, as the models give them.

    Not of one that may be absent for good, as a guard: the API server would bring it into being.
    """
    if path[0] != "spec" or len(path) != 2:
        return
    optional = {f.alias or n for n, f in FederationSpec.model_fields.items() if f.default is None}
    fields = made["properties"].values()
    if path[1] not in optional and any("default" in field for field in fields):
        made.setdefault("default", {})


def _move_exclusive_bounds(node: Schema) -> None:
    """OpenAPI 3.0 marks a bound as exclusive; JSON schema gives it a name of its own."""
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if exclusive in node:
            node[bound] = node[exclusive]
            node[exclusive] = True


def _key_list(node: Schema, path: tuple[str, ...]) -> None:
    if path in LIST_KEYS:
        node["x-kubernetes-list-type"] = "map"
        node["x-kubernetes-list-map-keys"] = [LIST_KEYS[path]]


def _without_defaults(node: Any, *, names: bool = False) -> Any:
    """A status is written whole: what the operator left out must stay out."""
    if isinstance(node, list):
        return [_without_defaults(entry) for entry in node]
    if not isinstance(node, dict):
        return node
    return {
        key: _without_defaults(value, names=key == "properties" and not names)
        for key, value in node.items()
        if names or key != "default"
    }


# -- rules between fields -------------------------------------------------------------------------


def _rule(rule: str, message: str, field: str = "") -> dict[str, str]:
    made = {"rule": rule, "message": message}
    return {**made, "fieldPath": field} if field else made


def _immutable(field: str, *parts: str) -> dict[str, str]:
    """An optional field that may neither change nor come or go; of `parts`, only those count."""
    both = f"has(self.{field}) == has(oldSelf.{field})"
    paths = [f"{field}.{part}" for part in parts] or [field]
    same = " && ".join(f"self.{path} == oldSelf.{path}" for path in paths)
    return _rule(
        f"{both} && (!has(self.{field}) || ({same}))",
        f"spec.{field}: cannot change after the federation was made",
        f".{field}",
    )


def _spec_rules() -> list[dict[str, str]]:
    minimum = "self.participation.minimumUpdates"
    return [
        _immutable("seed"),
        _immutable("model", "source"),
        _immutable("adapter"),
        # The same bucket may be reached by another address or with other credentials.
        _immutable("storage", "s3.bucket", "s3.prefix"),
        _rule("self.rounds >= oldSelf.rounds", "spec.rounds: may grow, never shrink", ".rounds"),
        _rule(
            f"!has(self.participation) || !has({minimum}) || {minimum} <= size(self.environments)",
            "spec.participation.minimumUpdates: expected at most the number of spec.environments",
            ".participation.minimumUpdates",
        ),
        _exchange_rule(),
        _krum_rule(),
        _guard_rule(),
        *_learner_rules(),
    ]


def _exchange_rule() -> dict[str, str]:
    """Letters need a bucket, a key, and a base model that nobody can exchange."""
    return _rule(
        "!self.environments.exists(e, has(e.member)) || "
        "(has(self.exchange) && has(self.storage) && has(self.model.sha256) && "
        "has(self.adapter.shapes))",
        "spec.exchange: with a silo that runs elsewhere, expected exchange, storage, model.sha256 "
        "and adapter.shapes",
        ".exchange",
    )


def _krum_rule() -> dict[str, str]:
    """Krum needs enough members; every field is asked for, since CEL knows no defaults."""
    ours = "self.aggregation"
    chosen = ", ".join(f"'{name}'" for name in sorted(KRUM))
    return _rule(
        f"!has({ours}) || !has({ours}.strategy) || !has({ours}.faulty) || "
        f"!({ours}.strategy in [{chosen}]) || size(self.environments) >= 2 * {ours}.faulty + 3",
        "spec.aggregation.faulty: krum and multi-krum need 2 x faulty + 3 spec.environments",
        ".aggregation.faulty",
    )


def _guard_rule() -> dict[str, str]:
    """Without a global adapter there is nothing to guard."""
    return _rule(
        "!has(self.guard) || (has(self.guard.action) && self.guard.action == 'none') || "
        "!has(self.aggregation) || !has(self.aggregation.strategy) || "
        "self.aggregation.strategy != 'none'",
        "spec.guard: aggregation.strategy none has no global adapter to guard",
        ".guard",
    )


def _learner_rules() -> list[dict[str, str]]:
    """Learners that compare need episodes to compare; the filter belongs to one learner alone."""
    ours, chosen = "self.training", ", ".join(f"'{name}'" for name in sorted(COMPARING))
    needs = {"tasksPerRound": 1, "samplesPerTask": 2}
    compares = f"has({ours}) && has({ours}.learner) && {ours}.learner in [{chosen}]"
    rules = [
        _rule(
            f"!({compares}) || !has(self.exploration) || !has(self.exploration.{field}) || "
            f"self.exploration.{field} >= {least}",
            f"spec.exploration.{field}: dpo and grpo compare episodes of one task, "
            f"expected {least} or more",
            f".exploration.{field}",
        )
        for field, least in needs.items()
    ]
    filtered = "has(self.experience) && has(self.experience.filter)"
    is_other = f"has({ours}) && has({ours}.learner) && {ours}.learner != 'success-sft'"
    free = _rule(
        f"!({is_other}) || !({filtered}) || self.experience.filter == 'success'",
        "spec.experience.filter: only the learner success-sft can go without, expected success",
        ".experience.filter",
    )
    return [*rules, free]


def _environment_rules() -> list[dict[str, str]]:
    reserved = ", ".join(f"'{name}'" for name in sorted(RESERVED_ENVIRONMENT_NAMES))
    return [
        _rule(
            f"!(self.name in [{reserved}])",
            f"spec.environments.name: {reserved} is kept for Hansa itself",
            ".name",
        ),
        _rule(
            "has(self.member) ? !has(self.world) || self.world == '' : "
            "has(self.world) && self.world != ''",
            "spec.environments.world: expected the world that it plays, or none where member says "
            "that the silo runs elsewhere",
            ".world",
        ),
        *(
            _rule(
                f"!has(self.member) || !has(self.{field})",
                f"spec.environments.{field}: expected none: a silo with member runs elsewhere",
                f".{field}",
            )
            for field in ("demonstrationsFrom", "credentialsSecret", "experienceStorage")
        ),
        _rule(
            "self.world == oldSelf.world",
            "spec.environments.world: cannot change; give the new world a new name",
            ".world",
        ),
    ]


def _name_rules() -> list[dict[str, str]]:
    pattern = flat(Metadata)["properties"]["name"]["pattern"]
    return [
        _rule(
            f"self.metadata.name.size() <= {MAX_FEDERATION_NAME}",
            f"metadata.name: expected at most {MAX_FEDERATION_NAME} characters, "
            "so that Job names have room",
        ),
        _rule(
            f"self.metadata.name.matches('{pattern}')",
            "metadata.name: expected lower-case letters, digits and inner dashes",
        ),
    ]
