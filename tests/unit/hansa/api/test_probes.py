"""Patterns of probes: what is taken is found in bounded time, and what is not is named."""

import time

import pytest

from hansa.api import probes
from hansa.api.probes import LONGEST_ANSWER, compile_pattern, explain_misfit


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
        "a{1000}",
        "(a+)+b",
        "(?P<name>a)",
    ],
)
def test_a_pattern_is_taken(pattern: str) -> None:
    assert explain_misfit(pattern) == ""


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", "missing )"),
        ("x**", "bad repetition operator"),
        (r"(a)\1", "invalid escape sequence"),
        ("(?=a)", "invalid perl operator"),
        ("a{4000}", "invalid repetition size"),
        ("((a{100}){100}){100}", "repeti"),
    ],
)
def test_a_pattern_that_cannot_be_looked_for_is_refused_by_its_reason(
    pattern: str, why: str
) -> None:
    misfit = explain_misfit(pattern)
    assert misfit.startswith(f"got '{pattern}', expected a regular expression as RE2 has them (")
    assert why in misfit


@pytest.mark.parametrize(
    "pattern",
    [
        *("(a+)+b", "(a*)*b", "(a|aa)+b", "(?:a|a)*b", "a*a*a*a*b", ".*.*.*=.*b"),
        "(a?){500}a{500}b",
        "(x+x+)+y|(a{0,99}a{0,99})+b",
    ],
)
def test_no_pattern_takes_more_than_seconds_for_the_longest_answer(pattern: str) -> None:
    assert explain_misfit(pattern) == ""
    began = time.process_time()
    assert not compile_pattern(pattern).search("a" * LONGEST_ANSWER)
    assert time.process_time() - began < 5


def test_case_does_not_count() -> None:
    assert compile_pattern("passw(o|\u00f6)rd").search("my PASSW\u00d6RD")
    assert "expected a regular expression" in explain_misfit("\ud800")


def test_the_bounds_are_what_the_fields_say() -> None:
    assert "4000 characters" in (probes.Probe.model_fields["forbidden"].description or "")
