"""Options that several commands take: a dataclass as a parameter's type stands for its fields."""

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from inspect import Parameter
from typing import Annotated, Any, get_origin, get_type_hints


def expand_groups(function: Callable[..., Any]) -> Callable[..., Any]:
    """The command as typer reads it: its own parameters, then those of its groups.

    A field of a group that is not declared as `Annotated` is no option and keeps its default.
    """
    parameters = inspect.signature(function, eval_str=True).parameters
    groups: dict[str, Any] = {
        n: p.annotation for n, p in parameters.items() if is_dataclass(p.annotation)
    }
    options = {name: _list_options(group) for name, group in groups.items()}

    def command(**given: Any) -> Any:
        for name, group in groups.items():
            given[name] = group(**{each.name: given.pop(each.name) for each in options[name]})
        return function(**given)

    own = [p.replace(kind=p.KEYWORD_ONLY) for n, p in parameters.items() if n not in groups]
    every = [*own, *(option for each in options.values() for option in each)]
    command.__doc__ = function.__doc__
    command.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in every}
    return command


def _list_options(group: Any) -> list[Parameter]:
    types = get_type_hints(group, include_extras=True)
    return [
        Parameter(f.name, Parameter.KEYWORD_ONLY, default=f.default, annotation=types[f.name])
        for f in fields(group)
        if get_origin(types[f.name]) is Annotated
    ]
