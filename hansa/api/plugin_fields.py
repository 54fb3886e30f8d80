"""The fields that name a plug-in, as far as they can be checked without it."""

import json
from collections.abc import Collection
from typing import Annotated, Any

from pydantic import Field

PluginName = Annotated[
    str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", min_length=1, max_length=63)
]
PluginOptions = dict[str, Any]
MOST_BYTES = 8192
"""Longest options as JSON: they are a part of every assignment, and of every order to a silo."""

MOST_LEVELS = 16
"""Lists and mappings within one another at most: far more than a person writes, and no serializer
fails on them."""


def check_options(
    section: str, field: str, name: str, options: PluginOptions | None, builtin: Collection[str]
) -> None:
    """Refuse options of a builtin, which has fields of its own, and those that are no JSON."""
    if not options:
        return
    if name in builtin:
        raise ValueError(
            f"{section}.options: got {', '.join(map(str, sorted(options)[:5]))}, expected none: "
            f"{field} {name} is builtin and has fields of its own in spec.{section}"
        )
    try:
        size = len(json.dumps(options, allow_nan=False).encode())
    except (TypeError, ValueError, RecursionError):
        raise ValueError(
            f"{section}.options: got a value that is no JSON, expected text, numbers, true, false, "
            "lists and mappings"
        ) from None
    if size > MOST_BYTES:
        raise ValueError(f"{section}.options: got {size} bytes, expected at most {MOST_BYTES}")
    if _levels(options) > MOST_LEVELS:
        raise ValueError(
            f"{section}.options: got more than {MOST_LEVELS} lists and mappings within one "
            f"another, expected at most {MOST_LEVELS}"
        )


def _levels(value: Any) -> int:
    """How deep lists and mappings lie within one another."""
    levels, inner = 0, [value]
    while inner := [each for each in inner if isinstance(each, dict | list)]:
        levels += 1
        inner = [x for each in inner for x in (each.values() if isinstance(each, dict) else each)]
    return levels
