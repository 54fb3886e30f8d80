"""Untrusted text, made safe for a terminal, a page, an Event or a log line.

A Pod's message, a world's name or an error that quotes a file may contain escape sequences,
characters that change the writing direction, and surrogates that UTF-8 cannot encode.
"""

import re
import unicodedata

_DIRECTIONS = frozenset("\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_SUSPECT = re.compile(r"[^\t\n -~\u00a1-\u024f]")
_HIDDEN = frozenset({"Cc", "Cs", "Cn", "Co", "Zl", "Zp"})
"""Control characters, surrogates, unassigned and private ones, and unusual line ends."""


def sanitize(text: object) -> str:
    """The text with control, direction and surrogate characters as \\u escapes; line ends stay."""
    return _SUSPECT.sub(_escape, str(text).replace("\r\n", "\n"))


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if character in _DIRECTIONS or unicodedata.category(character) in _HIDDEN:
        return f"\\u{ord(character):04x}"
    return character
