"""Reading a world's options: each is checked, and unknown ones are refused."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from hansa_worlds.errors import OptionError

T = TypeVar("T")


class Options:
    """Reads options one by one; `finish` raises everything that is wrong with them at once.

    For an invalid option the default is returned, so that reading continues.
    """

    def __init__(self, given: Mapping[str, object]) -> None:
        self._left = dict(given)
        self._known: list[str] = []
        self._wrong: list[str] = []

    def integer(self, name: str, default: int, low: int, high: int) -> int:
        """An integer from low to high."""
        value = _to_whole(self._take(name, default))
        is_valid = type(value) is int and low <= value <= high
        return self._accept(name, value, default, f"{low} to {high}", is_valid)

    def number(self, name: str, default: float, low: float, high: float) -> float:
        """A number from low to high."""
        value = self._take(name, default)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        is_valid = is_number and low <= cast("float", value) <= high
        return float(self._accept(name, value, default, f"{low:g} to {high:g}", is_valid))

    def text(self, name: str, default: str) -> str:
        """Any text."""
        value = self._take(name, default)
        return self._accept(name, value, default, "text", isinstance(value, str))

    def boolean(self, name: str, default: bool) -> bool:
        """True or false."""
        value = self._take(name, default)
        return self._accept(name, value, default, "true or false", isinstance(value, bool))

    def choice(self, name: str, default: str, choices: Sequence[str]) -> str:
        """One of a few words."""
        value = self._take(name, default)
        is_valid = isinstance(value, str) and value in choices
        return self._accept(name, value, default, " or ".join(choices), is_valid)

    def integers(self, name: str, default: Sequence[int], low: int, high: int) -> tuple[int, ...]:
        """A list of distinct integers from low to high, at least one."""
        fits = f"a list of distinct integers from {low} to {high}"
        found = self._list(name, default, fits, lambda x: type(x) is int and low <= x <= high)
        if not 0 < len(found) == len(set(found)):
            self.refuse(name, repr(list(found)), fits)
            return tuple(default)
        return found

    def words(self, name: str, default: Sequence[str], length: int, least: int) -> tuple[str, ...]:
        """A list of distinct lower-case words of one length."""
        fits = f"a list of at least {least} distinct words of {length} letters a to z"
        word = re.compile(f"[a-z]{{{length}}}")
        found = self._list(
            name, default, fits, lambda x: isinstance(x, str) and bool(word.fullmatch(x))
        )
        distinct = len(set(found))
        if distinct < max(least, len(found)):
            self.refuse(name, f"{distinct} distinct of {len(found)}", fits)
        return found

    def texts(self, name: str, fits: str, is_valid: Callable[[str], bool]) -> tuple[str, ...]:
        """A list of texts, empty by default."""
        nothing: tuple[str, ...] = ()
        return self._list(name, nothing, fits, lambda x: isinstance(x, str) and is_valid(x))

    def mapping(self, name: str) -> dict[str, object]:
        """A mapping of names to values, empty by default."""
        value = self._take(name, {})
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            self.refuse(name, repr(value), "a mapping of names to values")
            return {}
        return dict(value)

    def anything(self, name: str, default: object) -> object:
        """Any value, for the world itself to check."""
        return self._take(name, default)

    def refuse(self, name: str, got: str, fits: str) -> None:
        """Note an invalid option; `check` and `finish` raise it."""
        self._wrong.append(f"options.{name}: got {got}, expected {fits}")

    def check(self) -> None:
        """Raise what was invalid so far, before defaults are used in its place."""
        if self._wrong:
            raise OptionError("; ".join(self._wrong))

    def finish(self) -> None:
        """Raise what was invalid, and options that were not read: they may be misspelled."""
        if self._left:
            unknown = ", ".join(f"options.{name}" for name in sorted(self._left, key=str))
            known = ", ".join(sorted(self._known)) or "no options"
            self._wrong.append(f"{unknown}: unknown, expected {known}")
            self._left.clear()
        self.check()

    def _list(
        self, name: str, default: Sequence[T], fits: str, is_valid: Callable[[object], bool]
    ) -> tuple[T, ...]:
        """A list of items that are all valid."""
        value = self._take(name, default)
        if isinstance(value, str) or not isinstance(value, Sequence):
            self.refuse(name, repr(value), fits)
            return tuple(default)
        items = [_to_whole(item) for item in value]
        for item in items:
            if not is_valid(item):
                self.refuse(name, f"{item!r} in it", fits)
                return tuple(default)
        return tuple(items)

    def _accept(self, name: str, value: object, default: T, fits: str, is_valid: bool) -> T:
        """The value, or the default where it is refused."""
        if is_valid:
            return cast("T", value)
        self.refuse(name, repr(value), fits)
        return default

    def _take(self, name: str, default: object) -> object:
        self._known.append(name)
        return self._left.pop(name, default)


def _to_whole(value: Any) -> Any:
    """6 for 6.0, since JSON has one kind of number; anything else as it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
