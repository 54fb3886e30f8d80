"""A parsed document to a model, with one sentence for the first field that does not fit."""

from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from hansa.core.errors import InputError
from hansa.core.model import Model
from hansa.core.text import count
from hansa.validation import messages
from hansa.validation.json_schema import PathPart, Schema, at, flat

_Fitting = TypeVar("_Fitting", bound=Model)
Path = tuple[PathPart, ...]


def fit(kind: type[_Fitting], document: Any, where: Path = ()) -> _Fitting:
    """A document as a model, or an InputError that names the first field that does not fit.

    `where`: the document's own place in a manifest, where it is a part of one.
    """
    schema = flat(kind)
    problems = _unknown_fields(document, schema, where)
    if not problems:
        try:
            return kind.model_validate(document)
        except ValidationError as error:
            problems = _misfits(error, document, schema, where)
    raise InputError(problems[0], hint=_more(problems[1:]))


def _more(problems: list[str]) -> str:
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
        elif path != ("metadata",):  # the cluster writes more there than a plan reads
            problems.append(messages.unknown(path, name, list(fields)))
    return problems


def _misfits(error: ValidationError, document: Any, schema: Schema, where: Path) -> list[str]:
    details = error.errors(include_url=False)
    return list(dict.fromkeys(_misfit(detail, document, schema, where) for detail in details))


def _misfit(detail: ErrorDetails, document: Any, schema: Schema, where: Path) -> str:
    if detail["type"] == "value_error":  # the model's own sentence, with a path from `spec`
        return f"{messages.path_text(where or ('spec',))}.{detail['ctx']['error']}"
    missing = detail["type"] == "missing"
    path = _real_path(detail["loc"], document, missing)
    value = None if missing else _value(document, path)
    return messages.misfit((*where, *path), value, at(schema, path), missing=missing)


def _real_path(location: Path, document: Any, missing: bool) -> Path:
    """Pydantic's location without the names of union members, which are no part of a manifest."""
    path: list[PathPart] = []
    for position, part in enumerate(location):
        if _has(document, part):
            document = document[part]
        elif not (missing and position == len(location) - 1):
            continue
        path.append(part)
    return tuple(path)


def _has(document: Any, part: PathPart) -> bool:
    if isinstance(part, int):
        return isinstance(document, list) and part < len(document)
    return isinstance(document, dict) and part in document


def _value(document: Any, path: Path) -> Any:
    for part in path:
        document = document[part]
    return document
