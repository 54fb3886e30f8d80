"""Foreign text: without what a terminal obeys or an encoder refuses, and not too long."""

from __future__ import annotations

import re

from hansa.core.text import shorten

LONGEST_TEXT = 16_000
"""Characters of an observation that are kept; no agent reads more in one turn."""
LONGEST_ERROR = 200
LARGEST_REWARD = 1e6

_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]+")


def clean(text: str) -> str:
    """Text that may be shown and trained on."""
    text = _UNSEEN.sub("", text.replace("\r\n", "\n"))
    if len(text) > LONGEST_TEXT:
        text = text[: LONGEST_TEXT - 4] + " ..."
    return text


def error_line(text: str) -> str:
    """A server's error in one short line."""
    return shorten(clean(text), LONGEST_ERROR)
