"""Parsed documents as models, with one sentence for the first invalid field."""

from functools import reduce
from operator import getitem
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from hansa.core.errors import InputError
from hansa.core.model import Model
from hansa.core.text import count
from hansa.validation import messages
from hansa.validation.json_schema import PathPart, Schema, find_field, flatten_schema

_Fitting = TypeVar("_Fitting", bound=Model)
Path = tuple[PathPart, ...]


def validate_model(kind: type[_Fitting], document: Any, where: Path = ()) -> _Fitting:
    """A document as a model, or an InputError that names the first invalid field.

    `where`: path of the document in the manifest that it is a part of.
    """
    schema = flatten_schema(kind)
    problems = _unknown_fields(document, schema, where)
    if not problems:
        try:
            return kind.model_validate(document)
        except ValidationError as error:
            details = error.errors(include_url=False)
            problems = list(
                dict.fromkeys(_describe_misfit(d, document, schema, where) for d in details)
            )
    raise InputError(problems[0], hint=_summarize_others(problems[1:]))


def _summarize_others(problems: list[str]) -> str:
    if not problems:
        return ""
    paths = list(dict.fromkeys(problem.split(": ")[0] for problem in problems))
    more = len(paths) - 5
    rest = f" and {count(more, 'other')}" if more > 0 else ""
    return f"and {len(problems)} more: {', '.join(paths[:5])}{rest}"


def _unknown_fields(data: Any, schema: Schema, path: Path) -> list[str]:
    if isinstance(data, list):
        return [
            problem
            for index, entry in enumerate(data)
            for problem in _unknown_fields(entry, schema.get("items", {}), (*path, index))
        ]
    fields = schema.get("properties")
    if not isinstance(data, dict) or fields is None:
        return []
    problems = []
    for name, value in data.items():
        if name in fields:
            problems += _unknown_fields(value, fields[name], (*path, name))
        elif path == ("metadata",):  # Kubernetes adds fields there
            continue
        elif schema.get("additionalProperties") is not True:  # a package reads the others
            problems.append(messages.describe_unknown_field(path, name, list(fields)))
    return problems


def _describe_misfit(detail: ErrorDetails, document: Any, schema: Schema, where: Path) -> str:
    if detail["type"] == "value_error":  # a model's own sentence, with a path from where it is
        place = where or _real_path(detail["loc"], document, missing=False) or ("spec",)
        return f"{messages.format_path(place)}.{detail['ctx']['error']}"
    missing = detail["type"] == "missing"
    path = _real_path(detail["loc"], document, missing)
    value = None if missing else reduce(getitem, path, document)
    return messages.describe_misfit(
        (*where, *path), value, find_field(schema, path), missing=missing
    )


def _real_path(location: Path, document: Any, missing: bool) -> Path:
    """Pydantic's location without the names of union members, which are no part of a manifest."""
    path: list[PathPart] = []
    for position, part in enumerate(location):
        if _has_part(document, part):
            document = document[part]
        elif not (missing and position == len(location) - 1):
            continue
        path.append(part)
    return tuple(path)


def _has_part(document: Any, part: PathPart) -> bool:
    if isinstance(part, int):
        return isinstance(document, list) and part < len(document)
    return isinstance(document, dict) and part in document
