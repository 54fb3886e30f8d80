"""Foreign values: text without control characters and not too long, and finite rewards."""

from __future__ import annotations

import math
import re

from hansa.core.http import HttpError
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


def format_error(text: str) -> str:
    """A server's error in one short line."""
    return shorten(clean(text), LONGEST_ERROR)


def read_reward(value: object, field: str) -> float:
    """A reward of a server's answer: a number that training can use."""
    if not isinstance(value, int | float) or math.isnan(value) or abs(value) > LARGEST_REWARD:
        raise HttpError("answer", f"no number in {field!r}")
    return float(value)
