"""Reading a world's options: each with its bounds, and none that nobody asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from hansa_worlds.errors import OptionError


class Options:
    """Reads `options` entry by entry and names what is left over."""

    def __init__(self, given: Mapping[str, object]) -> None:
        self._left = dict(given)
        self._known: list[str] = []

    def integer(self, name: str, default: int, low: int, high: int) -> int:
        """An integer from low to high."""
        value = self._take(name, default)
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # JSON has one kind of number
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise OptionError(f"options.{name}: got {value!r}, expected {low} to {high}")
        return value

    def number(self, name: str, default: float, low: float, high: float) -> float:
        """A number from low to high."""
        value = self._take(name, default)
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not low <= value <= high
        ):
            raise OptionError(f"options.{name}: got {value!r}, expected {low:g} to {high:g}")
        return float(value)

    def text(self, name: str, default: str) -> str:
        """Any text."""
        value = self._take(name, default)
        if not isinstance(value, str):
            raise OptionError(f"options.{name}: got {value!r}, expected text")
        return value

    def integers(self, name: str, default: Sequence[int], low: int, high: int) -> tuple[int, ...]:
        """A list of distinct integers from low to high, at least one."""
        value = self._take(name, default)
        fits = f"a list of distinct integers from {low} to {high}"
        if isinstance(value, str) or not isinstance(value, Sequence) or not value:
            raise OptionError(f"options.{name}: got {value!r}, expected {fits}")
        found = [int(x) if isinstance(x, float) and x.is_integer() else x for x in value]
        for each in found:
            if isinstance(each, bool) or not isinstance(each, int) or not low <= each <= high:
                raise OptionError(f"options.{name}: got {each!r} in it, expected {fits}")
        if len(set(found)) != len(found):
            raise OptionError(f"options.{name}: got {value!r}, expected {fits}")
        return tuple(found)

    def boolean(self, name: str, default: bool) -> bool:
        """True or false."""
        value = self._take(name, default)
        if not isinstance(value, bool):
            raise OptionError(f"options.{name}: got {value!r}, expected true or false")
        return value

    def choice(self, name: str, default: str, choices: Sequence[str]) -> str:
        """One of a few words."""
        value = self._take(name, default)
        if not isinstance(value, str) or value not in choices:
            raise OptionError(f"options.{name}: got {value!r}, expected {' or '.join(choices)}")
        return value

    def words(self, name: str, default: Sequence[str], length: int, least: int) -> tuple[str, ...]:
        """A list of distinct lower-case words of one length."""
        value = self._take(name, default)
        fits = f"a list of at least {least} distinct words of {length} letters a to z"
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise OptionError(f"options.{name}: got {value!r}, expected {fits}")
        for word in value:
            if not isinstance(word, str) or not re.fullmatch(f"[a-z]{{{length}}}", word):
                raise OptionError(f"options.{name}: got {word!r} in it, expected {fits}")
        if len(set(value)) != len(value) or len(value) < least:
            raise OptionError(
                f"options.{name}: got {len(set(value))} distinct of {len(value)}, expected {fits}"
            )
        return tuple(value)

    def anything(self, name: str, default: object) -> object:
        """Whatever was given, for the world itself to check."""
        return self._take(name, default)

    def finish(self) -> None:
        """Refuse what nobody asked for: a mistyped option must not pass in silence."""
        for name in sorted(self._left, key=str):
            known = ", ".join(sorted(self._known)) or "no options"
            raise OptionError(f"options.{name}: unknown, expected {known}")

    def _take(self, name: str, default: object) -> object:
        self._known.append(name)
        return self._left.pop(name, default)
