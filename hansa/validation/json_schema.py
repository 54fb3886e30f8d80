"""JSON schemas of the contract's models, flat: no references, no nulls, one node per field.

The CRD is made from this form, and the sentences of `hansa validate` are read from it.
"""

from functools import cache
from typing import Any

from pydantic import BaseModel

Schema = dict[str, Any]
PathPart = str | int


@cache
def flatten_schema(model: type[BaseModel]) -> Schema:
    """The model's schema with users' field names and every reference replaced by its target.

    It is cached and shared: do not change it.
    """
    whole = model.model_json_schema(by_alias=True)
    result: Schema = _inline(whole, whole.get("$defs", {}))
    result.pop("$defs", None)
    return result


def _inline(node: Any, targets: Schema) -> Any:
    if isinstance(node, list):
        return [_inline(entry, targets) for entry in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        target = targets[node["$ref"].rsplit("/", 1)[1]]
        own = {key: value for key, value in node.items() if key != "$ref"}
        return _inline({**target, **own}, targets)
    plain = {key: _inline_key(key, value, targets) for key, value in node.items()}
    return _drop_null(plain)


def _inline_key(key: str, value: Any, targets: Schema) -> Any:
    if key == "properties":  # a field may have the name of a schema keyword
        return {name: _drop_title(_inline(field, targets)) for name, field in value.items()}
    if key in ("default", "enum", "required", "$defs"):
        return value
    return _drop_title(_inline(value, targets))


def _drop_title(node: Any) -> Any:
    if isinstance(node, dict) and isinstance(node.get("title"), str):
        return {key: value for key, value in node.items() if key != "title"}
    return node


def _drop_null(node: Schema) -> Schema:
    """An optional field without its null: it is absent instead."""
    if "anyOf" not in node:
        return node
    kinds = [kind for kind in node["anyOf"] if kind.get("type") != "null"]
    rest = {key: value for key, value in node.items() if key != "anyOf"}
    if len(kinds) == len(node["anyOf"]):
        return node
    if rest.get("default", ...) is None:
        del rest["default"]
    return {**kinds[0], **rest} if len(kinds) == 1 else {**rest, "anyOf": kinds}


def find_field(schema: Schema, path: tuple[PathPart, ...]) -> Schema:
    """The node that describes one field; empty where the schema leaves the field free."""
    for part in path:
        if isinstance(part, int):
            schema = _find_list(schema).get("items", {})
        else:
            schema = _field(schema, part)
    return schema


def _field(schema: Schema, name: str) -> Schema:
    """A field by its name, or what all entries of a mapping are."""
    patterns = list(schema.get("patternProperties", {}).values())
    entries = patterns[0] if patterns else schema.get("additionalProperties")
    spare = entries if isinstance(entries, dict) else {}
    field: Schema = schema.get("properties", {}).get(name, spare)
    return field


def _find_list(schema: Schema) -> Schema:
    kinds = schema.get("anyOf", [schema])
    return next((kind for kind in kinds if kind.get("type") == "array"), {})
