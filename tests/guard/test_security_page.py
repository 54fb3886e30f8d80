"""Every promise of docs/security.md has a test, and every test that the page names is there."""

import ast
import re
from functools import cache

import pytest

from tests.sources import ROOT

PAGE = (ROOT / "docs" / "security.md").read_text()
NAMED = re.compile(r"(tests/[\w/]+\.py)(?:::(\w+))?")
REMAINING = "What Hansa does not protect against"
"""The one section that promises nothing; it is the last."""


def sections() -> dict[str, str]:
    """Text by heading."""
    parts = re.split(r"^## (.+)$", PAGE, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


@cache
def functions_of(path: str) -> frozenset[str]:
    """Names of a file's test functions."""
    tree = ast.parse((ROOT / path).read_text())
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    return frozenset(node.name for node in functions if node.name.startswith("test_"))


def test_every_test_that_the_page_names_is_there() -> None:
    named = NAMED.findall(PAGE)
    assert len(named) > 50
    files = {path for path, _ in named}
    assert {path for path in files if not (ROOT / path).is_file()} == set()
    missing = [f"{path}::{name}" for path, name in named if name and name not in functions_of(path)]
    assert missing == []


@pytest.mark.parametrize("section", [name for name in sections() if name != REMAINING])
def test_every_promise_names_a_test(section: str) -> None:
    assert any(name for _, name in NAMED.findall(sections()[section]))


def test_what_remains_is_said_last() -> None:
    assert list(sections())[-1] == REMAINING


def test_every_attack_has_what_happens_and_its_test() -> None:
    rows = [
        line
        for line in sections()["Attacks, and the test that shows it"].splitlines()
        if line.startswith("| ") and not line.startswith(("| the attacker", "| ---"))
    ]
    assert len(rows) > 40
    for row in rows:
        attack, happens, test = (cell.strip() for cell in row.strip("|").split(" | "))
        assert attack and happens, row
        assert all(NAMED.fullmatch(each.strip("`")) for each in test.split(", ")), row
