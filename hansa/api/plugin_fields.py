"""The fields that name a strategy or a learner, as far as they can be checked without its code."""

import json
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any

from pydantic import Field

from hansa.core.errors import InputError
from hansa.core.model import Model
from hansa.validation.fit import validate_model
from hansa.validation.json_schema import flatten_schema

PluginName = Annotated[
    str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", min_length=1, max_length=63)
]
PluginOptions = dict[str, Any]
MOST_BYTES = 8192
"""Longest options as JSON: they are a part of every assignment, and of every order to a silo."""

MOST_LEVELS = 16
"""Lists and mappings within one another at most: far more than a person writes, and no serializer
fails on them."""


class NoOptions(Model):
    """For what has no settings of its own."""


@dataclass(frozen=True)
class BuiltinEntry:
    """What a table of builtin names says of each; of a package's, its class says so."""

    code: str
    """Module and class, as an entry point has them; imported only where it works."""
    does: str
    """What it does, in the reference."""
    options: type[Model] = NoOptions
    """Model of its options in the spec."""
    _: KW_ONLY
    not_private: str = ""
    """Why a federation with privacy cannot use it; empty: it can."""


def described(table: Mapping[str, BuiltinEntry]) -> str:
    """Every builtin name with what it does, for the description of a field."""
    lines = "; ".join(f"`{name}`: {entry.does}" for name, entry in table.items())
    return f"{lines}. Others are of packages."


def known_options(table: Mapping[str, BuiltinEntry]) -> dict[str, Any]:
    """JSON schema of what all builtin ones read, beside which a package's may have any name."""
    options = [flatten_schema(entry.options)["properties"] for entry in table.values()]
    properties = {name: schema for each in options for name, schema in each.items()}
    return {"properties": properties} if properties else {}


def check_options(
    name: str, options: PluginOptions | None, table: Mapping[str, BuiltinEntry]
) -> None:
    """Refuse options that a builtin one does not read, and of a package's what is no JSON."""
    if name in table:
        try:
            validate_model(table[name].options, options or {}, ("options",))
        except InputError as error:
            raise ValueError(error.message) from None
        return
    try:
        size = len(json.dumps(options or {}, allow_nan=False).encode())
    except (TypeError, ValueError, RecursionError):
        raise ValueError(
            "options: got a value that is no JSON, expected text, numbers, true, false, lists and "
            "mappings"
        ) from None
    if size > MOST_BYTES:
        raise ValueError(f"options: got {size} bytes, expected at most {MOST_BYTES}")
    if _levels(options) > MOST_LEVELS:
        raise ValueError(
            f"options: got more than {MOST_LEVELS} lists and mappings within one another, expected "
            f"at most {MOST_LEVELS}"
        )


def _levels(value: Any) -> int:
    """How deep lists and mappings lie within one another."""
    levels, inner = 0, [value]
    while inner := [each for each in inner if isinstance(each, dict | list)]:
        levels += 1
        inner = [x for each in inner for x in (each.values() if isinstance(each, dict) else each)]
    return levels
