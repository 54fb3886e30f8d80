"""Reference entries of every field of Hansa's objects, read from the models.

`docs/reference.md`, `docs/reference-member.md` and `hansa explain` are made from this, so none can
differ from the others, or from what is checked.
"""

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from hansa.api.immutable_fields import immutable_fields
from hansa.api.spec import FederationSpec
from hansa.api.status import CurrentRound, RoundEnvironment, RoundSettings
from hansa.manifests.cel import FIXED_IN_MEMBER
from hansa.manifests.crd import FEDERATION, CrdDefinition
from hansa.validation import messages
from hansa.validation.json_schema import Schema, flatten_schema

NEVER = "never"
NEXT_ROUND = "from the next round"
AT_ONCE = "at once"
ONLY_GROWS = "at once, and only upwards"
BY_FIELD = "see its fields"
CHANGES = {
    NEVER: "it cannot change after the object was made",
    NEXT_ROUND: "an open round keeps the settings that it opened with",
    AT_ONCE: "a Job that runs already keeps what it was made with",
}
"""When a changed field begins to count, and what that means."""

_SAMPLE: dict[str, Any] = {
    "adapter": {"shapes": "0" * 64},
    "storage": {"s3": {"bucket": "bucket"}},
    "training": {"maxSteps": 1},
    "privacy": {"epsilon": 8.0, "delta": 1e-5},
    "environments": [
        {
            "name": "any",
            "world": "maze",
            "experienceStorage": {"s3": {"bucket": "private"}},
            "maskingKey": "x25519:" + "A" * 43,
        }
    ],
}
"""A spec with every part whose place is remembered; its only environment stands for all."""


@dataclass(frozen=True, kw_only=True)
class ReferenceField:
    """One field."""

    path: str
    """Where it is: spec.environments[].world."""
    type: str
    """Kind of value: integer, number, string, boolean, object, map, or list of one of them."""
    is_required: bool = False
    """Whether a manifest must have it."""
    default: Any = None
    """What counts when it is absent; none: nothing does."""
    allowed: str = ""
    """What fits, in words; empty for objects."""
    change: str = ""
    """When a change counts; empty for the status, which nobody writes."""
    description: str = ""
    """What it means."""
    fields: list["ReferenceField"] = field(default_factory=list)
    """Fields of an object, or of the objects in a list."""

    @property
    def name(self) -> str:
        """Its last part, as a manifest writes it."""
        return self.path.rpartition(".")[2]

    def to_json(self) -> dict[str, Any]:
        """Plain data; what a field does not have is left out."""
        given = {{"is_required": "required"}.get(name, name): v for name, v in vars(self).items()}
        given["fields"] = [entry.to_json() for entry in self.fields]
        return {key: value for key, value in given.items() if value not in ("", None, [])}


@cache
def describe_spec(kind: CrdDefinition = FEDERATION) -> ReferenceField:
    """The spec of a kind with all its fields."""
    return _build_entry(flatten_schema(kind.spec), "spec", kind, is_required=True)


@cache
def describe_status(kind: CrdDefinition = FEDERATION) -> ReferenceField:
    """The status of a kind with all its fields."""
    return _build_entry(flatten_schema(kind.status), "status", kind)


def walk_fields(entry: ReferenceField) -> Iterator[ReferenceField]:
    """The field and all fields below it."""
    yield entry
    for each in entry.fields:
        yield from walk_fields(each)


def find(path: str, kind: CrdDefinition = FEDERATION) -> ReferenceField | None:
    """The field of that path; `[]`, `[0]` and `[maze]` may follow a list and need not.

    `spec.` may be left out, and more of it where only one field ends like this.
    """
    tops = (describe_spec(kind), describe_status(kind))
    entries = {_normalize(each.path): each for top in tops for each in walk_fields(top)}
    wanted = _normalize(path)
    ends = [name for name in entries if name.endswith(f".{wanted}")]
    name = next((each for each in (wanted, f"spec.{wanted}") if each in entries), None)
    return entries.get(name or (ends[0] if len(ends) == 1 else ""))


def suggest_paths(path: str, kind: CrdDefinition = FEDERATION) -> list[str]:
    """Paths that were probably meant: the same name elsewhere first, then similar paths."""
    paths = [
        each.path
        for top in (describe_spec(kind), describe_status(kind))
        for each in walk_fields(top)
    ]
    plain = {_normalize(each): each for each in reversed(paths)}
    wanted = _normalize(path)
    same = [each for each in paths if _normalize(each).endswith(f".{wanted}")]
    close = difflib.get_close_matches(wanted, plain, n=3, cutoff=0.75)
    return list(dict.fromkeys([*same, *(plain[each] for each in close)]))[:3]


def _normalize(path: str) -> str:
    return re.sub(r"\[[^\]]*\]", "", path.strip()).strip(".").lower()


# -- one field ------------------------------------------------------------------------------------


def _build_entry(
    node: Schema, path: str, kind: CrdDefinition, *, is_required: bool = False
) -> ReferenceField:
    is_list = node.get("type") == "array" and "properties" in node.get("items", {})
    inner, below = (node["items"], f"{path}[]") if is_list else (node, path)
    required = inner.get("required", [])
    fields = [
        _build_entry(each, f"{below}.{name}", kind, is_required=name in required)
        for name, each in inner.get("properties", {}).items()
    ]
    is_object = bool(fields) and inner is node
    return ReferenceField(
        path=path,
        type=_describe_type(node),
        is_required=is_required,
        default=node.get("default"),
        allowed=""
        if is_object or _describe_type(node) == "map"
        else messages.describe_expected(node),
        change=_find_change(path, fields, kind) if path.startswith("spec") else "",
        description=" ".join(node.get("description", "").split()),
        fields=fields,
    )


def _describe_type(node: Schema) -> str:
    if "anyOf" in node:
        return " or ".join(dict.fromkeys(_describe_type(kind) for kind in node["anyOf"]))
    kind = str(node.get("type", "any"))
    if kind == "array":
        return f"list of {_describe_type(node.get('items', {}))}"
    return "map" if kind == "object" and "properties" not in node else kind


# -- when a change counts -------------------------------------------------------------------------


def _find_change(path: str, fields: list[ReferenceField], kind: CrdDefinition) -> str:
    own = path.removeprefix("spec").removeprefix(".")
    is_federation = kind is FEDERATION
    if is_federation and own == "rounds":
        return ONLY_GROWS
    if own in (_list_immutable_paths() if is_federation else FIXED_IN_MEMBER):
        return NEVER
    below = {each.change for each in fields}
    if is_federation and (own == "environments" or own in _list_frozen_paths()):
        return NEXT_ROUND
    if below:
        return below.pop() if len(below) == 1 else BY_FIELD
    if not is_federation:  # each order is judged by what the manifest says at that moment
        return AT_ONCE
    parents = own.split(".")
    is_frozen = any(
        ".".join(parents[:depth]) in _list_frozen_paths() for depth in range(1, len(parents))
    )
    return NEXT_ROUND if is_frozen else AT_ONCE


@cache
def _list_immutable_paths() -> frozenset[str]:
    """Paths that a run remembers for good, as the code that refuses their changes has them."""
    sample = immutable_fields(FederationSpec.model_validate(_SAMPLE), {})
    paths = (path.replace("environments.any.", "environments[].") for path in _walk_leaves(sample))
    return frozenset({*paths, "environments[].name"} - {"rounds"})


def _walk_leaves(data: Any, path: str = "") -> Iterator[str]:
    if not isinstance(data, dict):
        yield path
        return
    for key, value in data.items():
        yield from _walk_leaves(value, f"{path}.{key}" if path else key)


@cache
def _list_frozen_paths() -> frozenset[str]:
    """Paths that are copied into status.current when a round opens."""
    settings = {
        *flatten_schema(RoundSettings)["properties"],
        *flatten_schema(CurrentRound)["properties"],
    }
    own = {f"environments[].{name}" for name in flatten_schema(RoundEnvironment)["properties"]}
    entries = {f"{name}[]" for name in flatten_schema(RoundSettings)["properties"]}
    return frozenset(
        {*(settings & flatten_schema(FederationSpec)["properties"].keys()), *own, *entries}
    )
