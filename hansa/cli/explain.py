"""`hansa explain`: what a field of an object means, what fits and when a change counts."""

import json
import textwrap
from typing import TYPE_CHECKING, Annotated

import typer

from hansa.cli.common import Format, Output, print_data
from hansa.core.errors import InputError

if TYPE_CHECKING:
    from hansa.manifests.reference import ReferenceField

WIDTH = 96


def explain(
    field: Annotated[
        str,
        typer.Argument(metavar="FIELD", help="A field: rounds, spec.exploration.temperature, ..."),
    ] = "spec",
    output: Output = Format.TABLE,
    member: Annotated[
        bool, typer.Option("--member", help="A field of a FederationMember instead.")
    ] = False,
) -> None:
    """Print what a field of a Federation means, as `kubectl explain` does.

    Without a field it shows the top level of spec; `hansa explain status` shows the status.
    """
    from hansa.manifests import reference
    from hansa.manifests.crd import FEDERATION, MEMBER

    kind = MEMBER if member else FEDERATION
    entry = reference.find(field, kind)
    if entry is None:
        near = reference.suggest_paths(field, kind) or ["spec", "status"]
        raise InputError(
            f"FIELD: got '{field}', expected a field of a {kind.kind}, "
            f"for example {' or '.join(near)}",
            hint="`hansa explain spec` lists the fields of spec",
        )
    if output is Format.TABLE:
        print(format_field(entry, kind.kind))
    else:
        print_data(entry.to_json(), output)


def format_field(entry: "ReferenceField", kind: str) -> str:
    """The field as a person reads it."""
    from hansa.api import constants

    lines = [
        f"GROUP:      {constants.GROUP}",
        f"KIND:       {kind}",
        f"VERSION:    {constants.VERSION}",
        "",
        f"FIELD:      {entry.path} {_format_type(entry)}",
        *(f"{title:<12}{value}" for title, value in _facts(entry)),
        "",
        "DESCRIPTION:",
        _indent(entry.description),
    ]
    if entry.fields:
        lines += ["", "FIELDS:"]
        for each in entry.fields:
            lines += [f"  {each.name} {_format_type(each)}", _indent(each.description), ""]
    return "\n".join(lines).rstrip()


def _facts(entry: "ReferenceField") -> list[tuple[str, str]]:
    """What there is to say in a line each."""
    from hansa.manifests.reference import CHANGES

    facts = [("ALLOWED:", entry.allowed)]
    if entry.default is not None:
        facts.append(("DEFAULT:", json.dumps(entry.default, ensure_ascii=False)))
    meaning = CHANGES.get(entry.change)
    facts.append(("CHANGES:", f"{entry.change}: {meaning}" if meaning else entry.change))
    return [(title, value) for title, value in facts if value]


def _format_type(entry: "ReferenceField") -> str:
    return f"<{entry.type}>{' -required-' if entry.is_required else ''}"


def _indent(words: str) -> str:
    return textwrap.fill(words, WIDTH, initial_indent="    ", subsequent_indent="    ")
