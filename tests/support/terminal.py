"""A terminal that wraps its lines anew when it is resized, as most of today's do.

It knows the few control sequences that a live table uses and refuses others, so that nothing is
taken for shown that a real terminal would treat otherwise.
"""

import re
from dataclasses import dataclass

_SEQUENCE = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])")


@dataclass
class _Row:
    text: str = ""
    is_wrapped: bool = False
    """Whether the line continues in the next row, for lack of room and not by a line break."""


class Terminal:
    """Rows of text, the last of which are visible; older ones come back when there is room."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self._rows = [_Row()]
        self._row, self._column = 0, 0
        self._rest = ""

    @property
    def visible(self) -> list[str]:
        """The rows on the screen, without spaces at their ends."""
        return [row.text.rstrip() for row in self._rows[self._top :]]

    @property
    def _top(self) -> int:
        return max(0, len(self._rows) - self.rows)

    def resize(self, columns: int, rows: int) -> None:
        """Wrap all lines anew; the cursor stays in its line."""
        lines, line, offset = self._lines()
        self.columns, self.rows = columns, rows
        self._rows = []
        for number, text in enumerate(lines):
            if number == line:
                self._row = len(self._rows) + offset // columns
                self._column = offset % columns
            pieces = [text[at : at + columns] for at in range(0, max(1, len(text)), columns)]
            self._rows += [_Row(piece, True) for piece in pieces]
            self._rows[-1].is_wrapped = False
        while len(self._rows) <= self._row:
            self._rows.append(_Row())
        while len(self._rows) > self._row + 1 and not self._rows[-1].text.strip():
            self._rows.pop()

    def _lines(self) -> tuple[list[str], int, int]:
        """The text by its line breaks, and the cursor as line and place in it."""
        lines: list[str] = []
        current, place = "", (0, 0)
        for number, row in enumerate(self._rows):
            if number == self._row:
                place = (len(lines), len(current) + self._column)
            current += row.text if row.is_wrapped else row.text.rstrip()
            if not row.is_wrapped:
                lines.append(current)
                current = ""
        return [*lines, *([current] if current else [])], *place

    def feed(self, text: str) -> None:
        """What a program writes; a sequence may come in two parts."""
        text = self._rest + text
        self._rest = ""
        while text:
            if text[0] != "\x1b":
                self._write(text[0])
                text = text[1:]
                continue
            sequence = _SEQUENCE.match(text)
            if sequence is None:
                assert len(text) < 12, f"unknown sequence {text[:12]!r}"
                self._rest = text
                return
            self._control(sequence[1], sequence[2])
            text = text[sequence.end() :]

    def _write(self, character: str) -> None:
        if character == "\r":
            self._column = 0
        elif character == "\n":
            self._next_row()
        else:
            if self._column == self.columns:
                self._rows[self._row].is_wrapped = True
                self._next_row()
            row = self._rows[self._row]
            text = row.text.ljust(self._column)
            row.text = text[: self._column] + character + text[self._column + 1 :]
            self._column += 1

    def _next_row(self) -> None:
        self._row, self._column = self._row + 1, 0
        if self._row == len(self._rows):
            self._rows.append(_Row())

    def _control(self, given: str, kind: str) -> None:
        if kind == "A":
            self._row = max(self._top, self._row - int(given or 1))
        elif kind == "K" and given == "2":
            self._rows[self._row] = _Row()
        elif kind == "H" and not given:
            self._row, self._column = self._top, 0
        elif kind == "J" and given == "2":
            for number in range(self._top, len(self._rows)):
                self._rows[number] = _Row()
        else:
            assert kind in "mhl", f"unknown sequence {given}{kind}"


def is_tame(text: str) -> bool:
    """Whether no terminal obeys anything in a text but tabs and line ends, and UTF-8 has it."""
    text.encode()
    turning = "\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
    controls = {chr(code) for code in (*range(32), *range(127, 160))} - {"\t", "\n"}
    return not set(text) & (controls | set(turning))
