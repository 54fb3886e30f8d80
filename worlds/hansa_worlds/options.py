"""Reading a world's options: each with its bounds, and none that nobody asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from hansa_worlds.errors import OptionError


class Options:
    """Reads `options` entry by entry; `finish` says all that is wrong with them at once.

    For an option that does not fit, the default is returned, so that reading goes on.
    """

    def __init__(self, given: Mapping[str, object]) -> None:
        self._left = dict(given)
        self._known: list[str] = []
        self._wrong: list[str] = []

    def integer(self, name: str, default: int, low: int, high: int) -> int:
        """An integer from low to high."""
        value = self._take(name, default)
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # JSON has one kind of number
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            self.refuse(name, repr(value), f"{low} to {high}")
            return default
        return value

    def number(self, name: str, default: float, low: float, high: float) -> float:
        """A number from low to high."""
        value = self._take(name, default)
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not low <= value <= high
        ):
            self.refuse(name, repr(value), f"{low:g} to {high:g}")
            return default
        return float(value)

    def text(self, name: str, default: str) -> str:
        """Any text."""
        value = self._take(name, default)
        if not isinstance(value, str):
            self.refuse(name, repr(value), "text")
            return default
        return value

    def integers(self, name: str, default: Sequence[int], low: int, high: int) -> tuple[int, ...]:
        """A list of distinct integers from low to high, at least one."""
        value = self._take(name, default)
        fits = f"a list of distinct integers from {low} to {high}"
        if isinstance(value, str) or not isinstance(value, Sequence) or not value:
            self.refuse(name, repr(value), fits)
            return tuple(default)
        numbers = [int(x) if isinstance(x, float) and x.is_integer() else x for x in value]
        for each in numbers:
            if isinstance(each, bool) or not isinstance(each, int) or not low <= each <= high:
                self.refuse(name, f"{each!r} in it", fits)
                return tuple(default)
        if len(set(numbers)) != len(numbers):
            self.refuse(name, repr(value), fits)
            return tuple(default)
        return tuple(numbers)

    def boolean(self, name: str, default: bool) -> bool:
        """True or false."""
        value = self._take(name, default)
        if not isinstance(value, bool):
            self.refuse(name, repr(value), "true or false")
            return default
        return value

    def choice(self, name: str, default: str, choices: Sequence[str]) -> str:
        """One of a few words."""
        value = self._take(name, default)
        if not isinstance(value, str) or value not in choices:
            self.refuse(name, repr(value), " or ".join(choices))
            return default
        return value

    def words(self, name: str, default: Sequence[str], length: int, least: int) -> tuple[str, ...]:
        """A list of distinct lower-case words of one length."""
        value = self._take(name, default)
        fits = f"a list of at least {least} distinct words of {length} letters a to z"
        if isinstance(value, str) or not isinstance(value, Sequence):
            self.refuse(name, repr(value), fits)
            return tuple(default)
        for word in value:
            if not isinstance(word, str) or not re.fullmatch(f"[a-z]{{{length}}}", word):
                self.refuse(name, f"{word!r} in it", fits)
                return tuple(default)
        if len(set(value)) != len(value) or len(value) < least:
            self.refuse(name, f"{len(set(value))} distinct of {len(value)}", fits)
            return tuple(default)
        return tuple(value)

    def mapping(self, name: str) -> dict[str, object]:
        """A mapping of names to values, empty by default."""
        value = self._take(name, {})
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            self.refuse(name, repr(value), "a mapping of names to values")
            return {}
        return dict(value)

    def anything(self, name: str, default: object) -> object:
        """Whatever was given, for the world itself to check."""
        return self._take(name, default)

    def refuse(self, name: str, got: str, fits: str) -> None:
        """Note an option that does not fit; `check` and `finish` raise it."""
        self._wrong.append(f"options.{name}: got {got}, expected {fits}")

    def check(self) -> None:
        """Raise what did not fit so far: before something that the defaults would mislead."""
        if self._wrong:
            raise OptionError("; ".join(self._wrong))

    def finish(self) -> None:
        """Raise what did not fit, and what nobody asked for: a mistyped option must not pass."""
        if self._left:
            unknown = ", ".join(f"options.{name}" for name in sorted(self._left, key=str))
            known = ", ".join(sorted(self._known)) or "no options"
            self._wrong.append(f"{unknown}: unknown, expected {known}")
            self._left.clear()
        self.check()

    def _take(self, name: str, default: object) -> object:
        self._known.append(name)
        return self._left.pop(name, default)
