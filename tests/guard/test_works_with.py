"""What the README says Hansa works with is shown by tests: every row links to one."""

import ast
import re
from pathlib import Path

import pytest

from tests.sources import ROOT

README = (ROOT / "README.md").read_text()
HEADING = "## What it works with"
LINK = re.compile(r"\[[^\]]+\]\((tests/[\w/]+\.py)\)")


def rows() -> list[list[str]]:
    """Cells of the table's rows: what, how, and the tests."""
    section = README.split(f"{HEADING}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


def has_tests(path: Path) -> bool:
    nodes = ast.walk(ast.parse(path.read_text()))
    return any(isinstance(n, ast.FunctionDef) and n.name.startswith("test_") for n in nodes)


def test_the_table_is_there_and_names_each_thing_once() -> None:
    names = [what for what, *_ in rows()]
    assert len(names) >= 15
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("row", rows(), ids=lambda row: re.sub(r"\W+", "-", row[0]).strip("-"))
def test_every_row_says_how_and_links_to_a_test(row: list[str]) -> None:
    what, how, test = row
    assert what and how
    linked = LINK.findall(test)
    assert linked, f"{what}: no link to a test"
    for path in linked:
        assert (ROOT / path).is_file() and has_tests(ROOT / path), f"{what}: {path}"
