"""Every failure that docs/members.md speaks of has a test, and every test it names is there."""

import re

from tests.guard.test_security_page import NAMED, functions_of
from tests.sources import ROOT

PAGE = (ROOT / "docs" / "members.md").read_text()
FAILURES = 22


def rows() -> list[list[str]]:
    """Cells of the table of failures."""
    section = PAGE.partition("## When something goes wrong")[2].partition("\n## ")[0]
    lines = re.findall(r"^\| \d+ \|.*$", section, re.MULTILINE)
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_every_failure_has_what_follows_and_its_test() -> None:
    assert [int(number) for number, *_ in rows()] == list(range(1, FAILURES + 1))
    for _, happens, follows, tests in rows():
        assert happens and follows
        assert all(NAMED.fullmatch(each.strip("`")) for each in tests.split(", ")), tests


def test_every_test_that_the_page_names_is_there() -> None:
    named = NAMED.findall(PAGE)
    missing = [f"{path}::{name}" for path, name in named if name and name not in functions_of(path)]
    assert missing == []
    assert all((ROOT / path).is_file() for path, _ in named)
