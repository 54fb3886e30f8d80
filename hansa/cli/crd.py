"""`hansa crd`: the CustomResourceDefinitions that teach a cluster Hansa's kinds of objects."""

from enum import StrEnum
from typing import Annotated

import typer

from hansa.api import constants
from hansa.cli.common import Format, Output, print_data, to_yaml


class Definition(StrEnum):
    """A kind of object that Hansa defines."""

    FEDERATION = constants.SINGULAR
    MEMBER = constants.MEMBER_SINGULAR


def crd(
    kind: Annotated[
        Definition | None,
        typer.Argument(metavar="KIND", help="Only this one; absent: both."),
    ] = None,
    output: Output = Format.YAML,
) -> None:
    """Print the CustomResourceDefinitions: `hansa crd | kubectl apply -f -`."""
    from hansa.manifests.crd import KINDS
    from hansa.manifests.crd import build_crd as definition

    made = [definition(each) for each in KINDS if kind in (None, each.singular)]
    if output is Format.JSON:
        several = {"apiVersion": "v1", "kind": "List", "items": made}
        print_data(several if kind is None else made[0], output)
    else:
        print("---\n".join(to_yaml(each) for each in made), end="")
