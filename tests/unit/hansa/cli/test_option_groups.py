"""Options that several commands take are declared once."""

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer

from hansa.cli.main import COMMANDS
from hansa.cli.option_groups import expand_groups
from tests.support.commands import call


@dataclass(frozen=True, kw_only=True)
class Size:
    """Two options, and a field that is none."""

    width: Annotated[int, typer.Option(help="How wide.")] = 3
    height: Annotated[int | None, typer.Option(help="How high.")] = None
    colour: str = "red"


def test_a_group_stands_for_its_fields() -> None:
    asked = []

    def draw(name: str, size: Size, fill: bool = False) -> None:
        """Draw it."""
        asked.append((name, size, fill))

    command = expand_groups(draw)
    command(name="x", width=1, height=2)
    assert asked == [("x", Size(width=1, height=2), False)]
    assert list(command.__annotations__) == ["name", "fill", "width", "height"]
    assert command.__doc__ == "Draw it."


@pytest.mark.parametrize("name", COMMANDS)
def test_an_option_that_names_a_cluster_comes_with_the_other_two(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = call(capsys, name, "--help")
    given = [option in out for option in ("--namespace", "--context ", "--kubeconfig")]
    assert len(set(given)) == 1
