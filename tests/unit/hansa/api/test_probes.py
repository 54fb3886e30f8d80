"""Patterns of probes: what is taken is found in bounded time, and what is not is named."""

import re
import time

import pytest

from hansa.api import probes
from hansa.api.probes import LONGEST_ANSWER, MOST_WAYS, explain_misfit


@pytest.mark.parametrize(
    "pattern",
    [
        "password",
        r"rm\s{1,5}-rf",
        "(a|b|c)(d|e)",
        "(?:yes|no) please",
        "[]a]*",
        "[^]]{2,3}x",
        r"\.{3}",
        r"[\]]+",
        "x{2}",
        "{}",
        "colou?r",
        r"\bI (can|will) pay\b",
        "a{4000}",
    ],
)
def test_a_pattern_that_costs_little_is_taken(pattern: str) -> None:
    assert explain_misfit(pattern) == ""


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", "a regular expression"),
        ("x**", "a regular expression"),
        ("(a+)+b", "a repeated group"),
        ("(?:a|a)*b", "a repeated group"),
        ("(a|b){30}", "a repeated group"),
        ("(?:a|b)?", "a repeated group"),
        (r"(a)\1", "a reference to a group"),
        ("(?=a)", "a group that is more"),
        ("(?x) a", "a group that is more"),
        ("(?P<name>a)", "a group that is more"),
        ("a*a*b", "16000000 ways"),
        ("a{0,99}a{0,99}", "10000 ways"),
        ("a?" * 20 + "b", "1048576 ways"),
        ("(a|a|a|a|a|a|a|a)" * 5, "32768 ways"),
        ("a{2,}b+", "16000000 ways"),
    ],
)
def test_a_pattern_that_may_cost_much_is_refused_by_its_reason(pattern: str, why: str) -> None:
    assert why in explain_misfit(pattern)


@pytest.mark.parametrize(
    "pattern", ["a*b", ".*b", "a{0,60}a{0,60}b", "[ab]+c", "(a|a|a|a)(a|a|a|a)(a|a)a{0,99}b"]
)
def test_the_dearest_patterns_that_are_taken_take_seconds_at_most(pattern: str) -> None:
    assert explain_misfit(pattern) == ""
    found = re.compile(pattern, re.IGNORECASE)
    began = time.process_time()
    assert not found.search("a" * LONGEST_ANSWER)
    assert time.process_time() - began < 10


def test_the_bounds_are_what_the_fields_say() -> None:
    assert (LONGEST_ANSWER, MOST_WAYS) == (4000, 4000)
    assert "4000 characters" in (probes.Probe.model_fields["forbidden"].description or "")
