"""What a coordinator asks a silo's owner to allow beyond the agreement: `hansa invite --allow`.

It is a suggestion: `hansa member` fills it in as limits and shows it, and the owner decides.
"""

import math
from collections.abc import Iterable, Iterator
from typing import Any

import yaml

from hansa.api.member_spec import Agreement, AllowedChanges
from hansa.core.errors import InputError
from hansa.validation.json_schema import find_field, flatten_schema
from hansa.validation.messages import describe_value

FORMS = "most=PATH:NUMBER, only=PATH:VALUE,VALUE or free=PATH"


def parse_allowances(given: Iterable[str], agreed: Agreement) -> AllowedChanges | None:
    """What --allow says, or nothing; an InputError says which of them does not fit."""
    most: dict[str, float] = {}
    only: dict[str, list[Any]] = {}
    free: list[str] = []
    for text in given:
        kind, equals, rest = text.partition("=")
        path, colon, value = rest.partition(":")
        if not equals or kind not in ("most", "only", "free") or bool(colon) == (kind == "free"):
            raise InputError(f"--allow: got {describe_value(text)}, expected {FORMS}")
        if path in (*most, *only, *free):
            raise InputError(f"--allow: got {describe_value(path)} twice, expected each path once")
        _check_path(kind, path, agreed)
        if kind == "most":
            most[path] = _parse_number(text, value)
        elif kind == "only":
            only[path] = [_parse_value(text, each) for each in value.split(",")]
        else:
            free.append(path)
    return AllowedChanges(most=most, only=only, free=free) if most or only or free else None


def _check_path(kind: str, path: str, agreed: Agreement) -> None:
    parts = tuple(path.split("."))
    if not path or not find_field(flatten_schema(Agreement), parts):
        example = "such as settings.exploration.tasksPerRound"
        raise InputError(
            f"--allow {kind}: got {describe_value(path)}, expected a path of spec.agreed, {example}"
        )
    ours = find_value(agreed, path)
    if kind != "free" and isinstance(ours, dict):
        raise InputError(
            f"--allow {kind}: got {describe_value(path)}, expected a field that has one value"
        )
    if kind == "most" and ours is not None and not _is_number(ours):
        raise InputError(
            f"--allow most: got {describe_value(path)}, expected a field that is a number"
        )


def find_value(agreed: Agreement, path: str) -> Any:
    """What was agreed on at a path; None: nothing."""
    value: Any = agreed.to_json()
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _parse_number(text: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"--allow: got {describe_value(text)}, expected a number after the colon")
    return number


def _parse_value(text: str, value: str) -> Any:
    """A value as a manifest would have it: 3 is a number, and mean a word."""
    try:
        read = yaml.safe_load(value)
    except yaml.YAMLError:
        read = None
    if not isinstance(read, str | int | float | bool):
        raise InputError(f"--allow: got {describe_value(text)}, expected values between commas")
    return read


def build_limits(allowed: AllowedChanges) -> dict[str, Any]:
    """The same as the limits of a FederationMember."""
    return {name: value for name, value in allowed.to_json().items() if value}


def describe_allowances(allowed: AllowedChanges, agreed: Agreement) -> Iterator[str]:
    """A line for each, for the owner to read."""
    for path, number in sorted(allowed.most.items()):
        yield f"{path}: at most {number:g} (agreed: {_describe_agreed(agreed, path)})"
    for path, values in sorted(allowed.only.items()):
        shown = " or ".join(map(describe_value, values))
        yield f"{path}: {shown} (agreed: {_describe_agreed(agreed, path)})"
    for path in sorted(allowed.free):
        yield f"{path}: anything"


def _describe_agreed(agreed: Agreement, path: str) -> str:
    value = find_value(agreed, path)
    return "nothing" if value is None else describe_value(value)
