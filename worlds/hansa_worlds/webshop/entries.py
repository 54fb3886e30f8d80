"""One entry of a JSON file, read field by field, with one sentence for each mistake."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator

from hansa_worlds.errors import OptionError

LONGEST_TEXT = 1_000
"""Characters of a text that are kept, unless a field has its own limit."""
MOST_ENTRIES = 100
"""Items of a list that are kept: a page shows them all."""


class JsonEntry:
    """A JSON object that should have certain fields; null is absent, and "" an empty list."""

    def __init__(self, where: str, value: object) -> None:
        self._where = where
        self._value = value

    def text(self, field: str, default: str | None = None, longest: int = LONGEST_TEXT) -> str:
        """A field's text on one line; without a default it must be there."""
        value = self._get(field)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            raise self.make_error(field, value, "text")
        return clean(value, longest)

    def texts(self, field: str) -> tuple[str, ...]:
        """A field's list of texts; a single text is a list of one."""
        value = self._get(field)
        if value is None or value == "":
            return ()
        found = [value] if isinstance(value, str) else value
        if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
            raise self.make_error(field, value, "a list of texts")
        return tuple(text for one in found[:MOST_ENTRIES] if (text := clean(one)))

    def lists(self, field: str) -> Iterator[tuple[str, list[JsonEntry]]]:
        """A field's lists of entries, by name; a list that is null is left out."""
        value = self._get(field)
        if value is None or value == "":
            return
        if not isinstance(value, dict):
            raise self.make_error(field, value, "an object of lists")
        for name, items in list(value.items())[:MOST_ENTRIES]:
            if items is None:
                continue
            where = f"{self._where}: {field}: {name[:20]!r}"
            if not isinstance(items, list):
                raise OptionError(f"{where}: got {_format_value(items)}, expected a list")
            kept = items[:MOST_ENTRIES]
            yield clean(name), [JsonEntry(f"{where} {at}", item) for at, item in enumerate(kept)]

    def entries(self) -> list[JsonEntry]:
        """The value itself as a list of entries."""
        if not isinstance(self._value, list):
            raise OptionError(f"{self._where}: got {_format_value(self._value)}, expected a list")
        kept = self._value[:MOST_ENTRIES]
        return [JsonEntry(f"{self._where} {at}", item) for at, item in enumerate(kept)]

    def make_error(self, field: str, value: object, fits: str) -> OptionError:
        """What to raise for a field that does not fit."""
        return OptionError(f"{self._where}: {field}: got {_format_value(value)}, expected {fits}")

    def _get(self, field: str) -> object:
        if not isinstance(self._value, dict):
            raise OptionError(
                f"{self._where}: got {_format_value(self._value)}, expected an object"
            )
        value: object = self._value.get(field)
        return value


def clean(text: str, longest: int = LONGEST_TEXT) -> str:
    """Text on one line that every encoding can hold."""
    return " ".join(text[:longest].split()).encode("utf-8", "replace").decode()


def _format_value(value: object) -> str:
    return "nothing" if value is None else reprlib.repr(value)  # shortened, however large it is
