"""Text of strangers, shown and never obeyed: by a terminal, a page, an Event or a line of a log.

A Pod's last words, a world's name or an error that quotes a file may carry escape sequences that
clear a screen or set its title, marks that turn the text around them, and halves of characters
that nothing can write as UTF-8.
"""

import re
import unicodedata

_DIRECTIONS = frozenset("\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_SUSPECT = re.compile(r"[^\t\n -~\u00a1-\u024f]")
_HIDDEN = frozenset({"Cc", "Cs", "Cn", "Co", "Zl", "Zp"})
"""Control characters, halves, those that mean nothing, and line ends that only some obey."""


def visible(text: object) -> str:
    """The text with control, direction and half characters as \\u escapes; line ends stay."""
    return _SUSPECT.sub(_escaped, str(text).replace("\r\n", "\n"))


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    if character in _DIRECTIONS or unicodedata.category(character) in _HIDDEN:
        return f"\\u{ord(character):04x}"
    return character
