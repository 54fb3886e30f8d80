"""What an action means by the book of recipes; the answers are cached."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import islice, product

from hansa_worlds.base import Observation
from hansa_worlds.textcraft.book import Book, Recipe, format_command

_MOST_KEPT = 20_000
"""Actions remembered; agents repeat themselves, but a hostile one never does."""
_MOST_WAYS = 64
"""Spellings listed for one recipe whose ingredients are kinds."""
_MOST_PARTS = 9
"""A crafting grid has nine places; more parts are no recipe, only work."""

_NOTHING = Observation("")
_GET = re.compile(r"get ([0-9]{1,3}) (.+)")
_CRAFT = re.compile(r"craft (?:[0-9]{1,3} )?(.+?) using (.+)")
_PART = re.compile(r"([0-9]{1,3}) (.+)")


@dataclass(frozen=True, slots=True)
class ParsedAction:
    """A parsed action, or the answer to an invalid one."""

    seen: Observation
    """What is read when it is carried out, or why it cannot be."""
    gives: str = ""
    """The item it brings; nothing for an order that is refused."""
    number: int = 0
    takes: tuple[tuple[str, int], ...] = ()
    """What it uses up: empty for a get."""
    lacks: Observation = _NOTHING
    """What is read when something is missing."""


class ActionParser:
    """Reads actions by a book; as in TextCraft, the book counts and not what the prompt shows."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self.read = lru_cache(maxsize=_MOST_KEPT)(self._parse)
        """What a line of text means, any text."""
        self.spellings = cache(self._spell)
        """The commands that carry a recipe out, one for each choice among its kinds."""

    def _spell(self, recipe: Recipe) -> tuple[str, ...]:
        kinds = self._book.kinds
        each = [[(n, item) for item in kinds.get(part, (part,))] for n, part in recipe.needs]
        ways = islice(product(*each), _MOST_WAYS)
        return tuple(format_command(recipe.makes, recipe.item, way) for way in ways)

    def _parse(self, action: str) -> ParsedAction:
        if found := _GET.fullmatch(action):
            return self._parse_get(int(found[1]), found[2])
        if found := _CRAFT.fullmatch(action):
            return self._parse_craft(found[1], found[2])
        return _refuse("Could not execute that.")

    def _parse_get(self, number: int, item: str) -> ParsedAction:
        if item not in self._book.base:
            # only known words are repeated: a small model can read no others
            known = item in self._book.recipes or item in self._book.kinds
            return _refuse(f"Could not find {item}" if known else "Could not find that.")
        if number < 1:
            return _refuse("Could not execute that.")
        return ParsedAction(Observation(f"Got {number} {item}"), item, number)

    def _parse_craft(self, item: str, using: str) -> ParsedAction:
        parts = [_PART.fullmatch(part.strip()) for part in using.split(",")]
        given = [(int(part[1]), part[2]) for part in parts if part]
        ways = self._book.recipes.get(item)
        if ways is None or len(given) != len(parts):
            return _refuse("Could not find a recipe for that.")
        for way in ways:
            if len(given) <= _MOST_PARTS and self._matches(way.needs, given):
                return _make_craft(way, given)
        return _refuse(f"Could not find such a recipe for {item}")

    def _matches(self, needs: Sequence[tuple[int, str]], given: list[tuple[int, str]]) -> bool:
        """Whether each need is met by one part, in any order; a kind by any item of it."""
        if len(needs) != len(given):
            return False
        if not needs:
            return True
        number, name = needs[0]
        fitting = self._book.kinds.get(name, (name,))
        return any(
            count == number
            and item in fitting
            and self._matches(needs[1:], given[:i] + given[i + 1 :])
            for i, (count, item) in enumerate(given)
        )


def _refuse(text: str) -> ParsedAction:
    return ParsedAction(Observation(text))


def _make_craft(way: Recipe, given: list[tuple[int, str]]) -> ParsedAction:
    takes: dict[str, int] = {}
    for number, part in given:
        takes[part] = takes.get(part, 0) + number
    return ParsedAction(
        Observation(f"Crafted {way.makes} {way.item}"),
        way.item,
        way.makes,
        tuple(takes.items()),
        Observation(f"Could not find enough items to craft {way.item}"),
    )
