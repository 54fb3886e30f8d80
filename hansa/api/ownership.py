"""Who decides a field: markers on the models, from which all lists of such fields follow."""

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any, TypeVar

from pydantic import BaseModel

AnyModel = TypeVar("AnyModel", bound=BaseModel)


class Owner(Enum):
    """Who decides a field. A field of an order without a marker fails a test."""

    FORMAT = "it says what kind of document this is, and its own model refuses others"
    SILO = "the silo sets it in its own spec: neither a Federation with `member` nor an order does"
    MEMBER = "the silo's spec says it as well, and an order must say the same"
    AGREEMENT = "it is as agreed, or as the silo's limits allow"
    ROUND = "the coordinator decides it for each round, within a check of its own"
    AGGREGATOR = "no client reads it"


def list_fields(model: type[BaseModel], owner: Owner) -> list[str]:
    """The model's own fields with this marker."""
    return [name for name, field in model.model_fields.items() if owner in field.metadata]


def list_paths(model: type[BaseModel], owner: Owner, above: str = "") -> Iterator[str]:
    """Paths of the fields with this marker, in the model and in those that it has as fields."""
    for name, field in model.model_fields.items():
        path = f"{above}{get_alias(model, name)}"
        if owner in field.metadata:
            yield path
        elif isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from list_paths(field.annotation, owner, f"{path}.")


def get_alias(model: type[BaseModel], field: str) -> str:
    """The field as documents spell it."""
    return model.model_fields[field].alias or field


def clear_fields(document: AnyModel, fields: Iterable[str]) -> AnyModel:
    """The same document, with these fields as they are where nobody sets them."""
    known = type(document).model_fields
    default: dict[str, Any] = {
        name: known[name].get_default(call_default_factory=True) for name in fields
    }
    return document.model_copy(update=default)
