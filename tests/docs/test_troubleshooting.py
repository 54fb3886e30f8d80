"""The troubleshooting page knows every way to be stalled and every way to stop."""

import re
from pathlib import Path
from typing import get_args

from hansa.api.constants import MemberReason, Reason
from hansa.core.exits import Exit

PAGE = (Path(__file__).parents[2] / "docs/troubleshooting.md").read_text()
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
    assert all(f"| {exit_.name} |" in PAGE for exit_ in Exit)
