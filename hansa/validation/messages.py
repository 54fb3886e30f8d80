"""What is wrong with a field, in one sentence: where, what came, what fits.

What fits is read from the schema, so a bound is written once and its sentence follows.
"""

import difflib
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hansa.core.text import count
from hansa.validation.json_schema import PathPart, Schema

if TYPE_CHECKING:
    from pydantic import ValidationError

PATTERNS: dict[str, str] = {
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$": "lower-case letters, digits and inner dashes",
    r"^([a-z0-9]([-a-z0-9_.]*[a-z0-9])?)?$": "lower-case letters, digits and inner -, _ or .",
    r"^(builtin:[a-z0-9-]+|s3://[^/\s]+/\S+|hf:[\w.-]+/[\w.-]+(@[\w.-]+)?|path:\S.*)$": (
        "builtin:tiny, s3://bucket/prefix, hf:org/name@revision or path:/dir"
    ),
    r"^(s3://[a-z0-9][a-z0-9.-]+/([^\s*?$]*[^\s*?$/])|(path:)?[^\s:][^:]*)$": (
        "s3://bucket/key of one file (no * ? $, no slash at its end), or its path"
    ),
    r"^[a-z0-9]([-a-z0-9_.]*[a-z0-9])?$": "lower-case letters, digits and inner -, _ or .",
    r"^https?://[^\s/@?#]+(/[^\s@?#]*)?$": "http:// or https:// with a host, without a password",
    r"^\S(.*\S)?$": "text without a space at its ends",
    r"^https?://[^\s/]+/?$": "http:// or https:// with a host and no path",
    r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$": (
        "a bucket name of 3 to 63 lower-case letters, digits, dots and dashes"
    ),
    r"^([A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*)?$": (
        "a path of letters, digits, _, . and -, without a slash at its ends"
    ),
    r"^[a-z0-9]([-a-z0-9+.]*[a-z0-9])?$": "lower-case letters, digits and inner -, + or .",
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$": (
        "lower-case letters, digits and inner - or ., as a Secret is named"
    ),
    r"^[-._a-zA-Z0-9]+$": "letters, digits, -, _ and .",
    r"^[0-9a-f]{64}$": "a sha256 of 64 hexadecimal digits",
    r"^([0-9a-f]{64})?$": "a sha256 of 64 hexadecimal digits, or nothing",
    r"^ed25519:[A-Za-z0-9_-]{43}$": "ed25519: and 43 letters of base64url, see `hansa keys show`",
    r"^x25519:[A-Za-z0-9_-]{43}$": "x25519: and 43 letters of base64url, see `hansa keys show`",
    r"^/([^/\s]+/)*[^/\s]+$": "an absolute path without a slash at its end",
    r"^([01][0-9]|2[0-3]):[0-5][0-9]$": "hours and minutes, as 20:00",
    r"^[A-Za-z0-9]+(\.[A-Za-z0-9]+)*$": "names of fields with dots between them",
}
"""Patterns in words; a test fails when the contract has one that is missing here."""

_SECRET = re.compile(r"secret|credential|password|token|access.?key|private.?key", re.IGNORECASE)
_COUNT = re.compile(r"tokens$", re.IGNORECASE)
"""Under such a name a number counts tokens of text, for example training.batchTokens."""
_USER_INFO = re.compile(r"//[^/@\s]*@")
_SHOWN = 60
_LONGEST_PATH = 200
_MOST_MISFITS = 1000
"""Pydantic builds all errors or none, a kilobyte each."""


def format_path(path: tuple[PathPart, ...], whole: str = "the manifest") -> str:
    """The path as users write it: spec.environments[2].options.size; `whole` when it is empty."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{_clip(part)}"
    return text.removeprefix(".") or whole


def describe_first_misfit(error: "ValidationError", whole: str = "the document") -> str:
    """The first error that pydantic reports: which field, and why; never the value itself.

    `whole` names the document where the error belongs to no field, as text that is not JSON.
    """
    if error.error_count() > _MOST_MISFITS:
        return f"{whole}: got {error.error_count()} things that do not fit"
    detail = error.errors(include_url=False, include_input=False)[0]
    own = detail["type"] == "value_error"  # a sentence of a model of ours
    why = str(detail["ctx"]["error"]) if own else detail["msg"]
    return f"{format_path(detail['loc'], whole)[:_LONGEST_PATH]}: {why}"


def describe_value(value: Any, path: tuple[PathPart, ...] = ()) -> str:
    """The value in a few words; one that could be a secret only by its kind."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "an empty mapping" if not value else "a mapping"
    if isinstance(value, list):
        return "an empty list" if not value else "a list"
    if any(_may_be_secret(value, part) for part in path):
        return "text" if isinstance(value, str) else "a number"
    if isinstance(value, str):
        return f"'{_clip(_USER_INFO.sub('//***@', value))}'"
    return _clip(str(value))


def _may_be_secret(value: str | float, part: PathPart) -> bool:
    if isinstance(part, int) or (_COUNT.search(part) and not isinstance(value, str)):
        return False
    return bool(_SECRET.search(part))


def _clip(text: str) -> str:
    line = text.encode("unicode_escape").decode() if not text.isprintable() else text
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"


def describe_unknown_field(path: tuple[PathPart, ...], name: str, known: list[str]) -> str:
    """An unknown field, and the one that was probably meant."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    folded = {re.sub(r"[^a-z0-9]", "", field.lower()): field for field in known}
    same = folded.get(re.sub(r"[^a-z0-9]", "", name.lower()))
    meant = same or (near[0] if near else "")
    choices = f"one of {', '.join(sorted(known))}" if known else "none"
    remedy = f"did you mean {meant}?" if meant else f"expected {choices}"
    return f"{format_path((*path, name))}: unknown field, {remedy}"


def describe_misfit(
    path: tuple[PathPart, ...], value: Any, schema: Schema, *, missing: bool = False
) -> str:
    """A value that its schema refuses."""
    came = "nothing" if missing else _describe_received(value, path, schema)
    return f"{format_path(path)}: got {came}, expected {describe_expected(schema)}"


def _describe_received(value: Any, path: tuple[PathPart, ...], schema: Schema) -> str:
    if isinstance(value, list) and ("minItems" in schema or "maxItems" in schema):
        return count(len(value), "entry")
    if isinstance(value, str) and len(value) > schema.get("maxLength", len(value)):
        return count(len(value), "character")
    return describe_value(value, path)


def describe_expected(schema: Schema) -> str:
    """What fits, in words."""
    if "anyOf" in schema:
        return " or ".join(describe_expected(kind) for kind in schema["anyOf"])
    if "const" in schema:
        return str(schema["const"])
    if "enum" in schema:
        return " or ".join(str(choice) for choice in schema["enum"])
    describe = _KINDS.get(schema.get("type", ""))
    return describe(schema) if describe else "another value"


_BOUNDS = {
    "minimum": "at least",
    "exclusiveMinimum": "above",
    "maximum": "at most",
    "exclusiveMaximum": "below",
}


def _describe_number(schema: Schema) -> str:
    kind = "a whole number" if schema["type"] == "integer" else "a number"
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f"{kind} from {_format_bound(low)} to {_format_bound(high)}"
    bounds = [
        f"{word} {_format_bound(schema[key])}" for key, word in _BOUNDS.items() if key in schema
    ]
    return " ".join([kind, " and ".join(bounds)]).rstrip()


def _format_bound(bound: float) -> str:
    return str(int(bound)) if float(bound).is_integer() else str(bound)


def _describe_text(schema: Schema) -> str:
    low, high = schema.get("minLength", 0), schema.get("maxLength")
    if "pattern" in schema:
        words = PATTERNS.get(schema["pattern"], "text of another form")
        return f"{words} (at most {high} characters)" if high and high <= 63 else words
    if high is None:
        return "text"
    return f"text of {low} to {high} characters"


def _describe_list(schema: Schema) -> str:
    if "minItems" in schema and "maxItems" in schema:
        return f"a list of {schema['minItems']} to {schema['maxItems']} entries"
    if "maxItems" in schema:
        return f"a list of at most {schema['maxItems']} entries"
    return "a list"


def _describe_mapping(schema: Schema) -> str:
    names = list(schema.get("required", [])) or list(schema.get("properties", {}))
    return f"a mapping with {', '.join(names[:4])}" if names else "a mapping"


_KINDS: dict[str, Callable[[Schema], str]] = {
    "integer": _describe_number,
    "number": _describe_number,
    "string": _describe_text,
    "array": _describe_list,
    "object": _describe_mapping,
    "boolean": lambda _: "true or false",
}
