"""Markup: text of strangers stays text."""

import json
import re
from datetime import UTC, datetime, timedelta, timezone

import pytest

from hansa.report import markup
from hansa.report.markup import Html, escape, script_json, tag


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("<script>", "&lt;script&gt;", id="tags"),
        pytest.param("\"'&", "&quot;&#x27;&amp;", id="quotes"),
        pytest.param("a\u202eb", "a\\u202eb", id="direction overrides are shown"),
        pytest.param("a\u2066b", "a\\u2066b", id="direction isolates are shown"),
        pytest.param("a\x00\x1b[0m", "a\\u0000\\u001b[0m", id="control characters are shown"),
        pytest.param("\ud800", "\\ud800", id="half a character can still be written as UTF-8"),
        pytest.param("a\r\nb\tc", "a\nb\tc", id="line ends and tabs are text"),
        pytest.param("Grüße, 你好 👋", "Grüße, 你好 👋", id="other scripts are text"),
    ],
)
def test_text_is_escaped(text: str, shown: str) -> None:
    assert escape(text) == shown
    escape(text).encode()


def test_only_markup_made_here_passes_unescaped() -> None:
    assert tag("p", "<b>", Html("<i>")) == "<p>&lt;b&gt;<i></p>"


def test_attributes_are_escaped_and_named_as_html_names_them() -> None:
    made = tag("td", class_="x", data_round=3, title='"><script>', hidden=None, open=True)
    assert made == '<td class="x" data-round="3" title="&quot;&gt;&lt;script&gt;" open></td>'


def test_embedded_json_cannot_end_its_element() -> None:
    document = {"name": "</script><script>alert(1)</script><!-- &amp; \u2028"}
    made = script_json("x", document)
    assert made.count("<") == 2
    body = re.sub(r"^<script[^>]*>|</script>$", "", made)
    assert json.loads(body) == document


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(None, "–"), (2.06, "2.1 s"), (9.97, "10 s"), (310, "5 min 10 s"), (4330, "1 h 12 min")],
)
def test_durations_are_short(seconds: float | None, shown: str) -> None:
    assert markup.duration(seconds).replace(markup.THIN, " ") == shown


def test_figures_have_signs_and_units() -> None:
    assert markup.points(-0.031) == "\u22123.1"
    assert markup.points(-0.0001) == "0.0"
    assert markup.size(497_664).replace(markup.THIN, " ") == "486 KiB"
    assert markup.size(7 << 30).replace(markup.THIN, " ") == "7 GiB"
    assert markup.format_count(12_345).replace(markup.THIN, " ") == "12 345"


def test_times_are_told_in_utc() -> None:
    east = timezone(timedelta(hours=2))
    assert markup.format_time(datetime(2026, 1, 2, 1, 30, tzinfo=east)) == "2026-01-01 23:30 UTC"
    assert markup.format_time(datetime(2026, 1, 2, tzinfo=UTC)) == "2026-01-02 00:00 UTC"
    assert markup.format_time(None) == "–"


def test_passwords_in_addresses_are_hidden() -> None:
    assert markup.strip_credentials("https://me:pw@s3.test") == "https://***@s3.test"
