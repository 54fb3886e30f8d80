"""The troubleshooting page knows every way to be stalled and every way to stop."""

import re
from pathlib import Path
from typing import get_args

from hansa.api.constants import MemberReason, Reason
from hansa.core.exits import Exit

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "troubleshooting.md").read_text()
MEMBERS = PAGE.partition("### Of a silo elsewhere\n")[2].partition("\n## ")[0]
FEDERATIONS = PAGE.replace(MEMBERS, "")
HEALTHY = {"Valid", "AllHealthy", "Running", "AllRoundsDone"}


def test_every_reason_that_a_person_may_ask_about_has_a_row():
    rows = set(re.findall(r"^\| \w+ (?:True|False) \| (\w+) \|", FEDERATIONS, flags=re.MULTILINE))
    assert rows == set(get_args(Reason)) - HEALTHY


def test_every_reason_of_a_silos_conditions_has_a_row():
    rows = re.findall(
        r"^\| (?:Accepted|Connected|Allowed|Working) [^|]+ \| (\w+) \|", MEMBERS, re.M
    )
    assert set(rows) == set(get_args(MemberReason))


def test_every_exit_has_a_row():
    assert all(
        f"| {exit_.value}{', or any other' * (exit_ == 1)} | {exit_.name} |" in PAGE
        for exit_ in Exit
    )


def test_all_pages_follow_one_table_of_exit_codes():
    table = PAGE.partition("## Exit codes\n")[2].partition("\n## ")[0]
    known = set(re.findall(r"^\| (\d+)", table, flags=re.MULTILINE))
    assert {"0", "1", "2", "3", "130", "141"} <= known
    for page in sorted(DOCS.glob("*.md")):
        text = page.read_text()
        assert set(re.findall(r"\bexit (?:code |status )?(\d+)", text)) <= known, page.name
        assert page.name == "troubleshooting.md" or "| code | meaning |" not in text, page.name
