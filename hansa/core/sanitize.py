"""Untrusted text, made safe for a terminal, a page, an Event or a log line.

A Pod's message, a world's name or an error that quotes a file may contain escape sequences,
characters that change the writing direction, and surrogates that UTF-8 cannot encode.
"""

import re
import unicodedata

_SUSPECT = re.compile(r"[^\t\n -~\u00a1-\u00ac\u00ae-\u024f]")
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"})
"""Control and format characters, surrogates, unassigned and private ones, unusual line ends."""


def sanitize(text: object) -> str:
    """The text with control, format and surrogate characters as \\u escapes; line ends stay."""
    return _SUSPECT.sub(_escape, str(text).replace("\r\n", "\n"))


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if unicodedata.category(character) in _HIDDEN:
        return f"\\u{ord(character):04x}"
    return character
