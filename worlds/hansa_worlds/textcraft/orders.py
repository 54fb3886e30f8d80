"""What an action means by the book: read once, remembered, and carried out by dictionary."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, product

from hansa_worlds.base import Observation
from hansa_worlds.textcraft.book import Book, Recipe, command

_MOST_KEPT = 20_000
"""Actions remembered; agents repeat themselves, but a hostile one never does."""
_LONGEST_KEPT = 200
"""Characters of a remembered action: about the longest command."""
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
    """An action that has been understood, or the answer to one that has not."""

    seen: Observation
    """What is read when it is carried out, or why it cannot be."""
    gives: str = ""
    """The item it brings; nothing for an order that is refused."""
    number: int = 0
    takes: tuple[tuple[str, int], ...] = ()
    """What it uses up: empty for a get."""
    lacks: Observation = _NOTHING
    """What is read when something is missing."""


class Orders:
    """Reads actions by a book; as in TextCraft, the book counts and not what the prompt shows."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._known: dict[str, ParsedAction] = {}
        self._spellings: dict[Recipe, tuple[str, ...]] = {}

    def read(self, action: str) -> ParsedAction:
        """The order behind a line of text, any text."""
        order = self._known.get(action)
        if order is None:
            order = self._understand(action)
            if len(action) <= _LONGEST_KEPT:
                if len(self._known) >= _MOST_KEPT:
                    self._known.clear()
                self._known[action] = order
        return order

    def spellings(self, recipe: Recipe) -> tuple[str, ...]:
        """The commands that carry a recipe out, one for each choice among its kinds."""
        found = self._spellings.get(recipe)
        if found is None:
            kinds = self._book.kinds
            each = [[(n, item) for item in kinds.get(part, (part,))] for n, part in recipe.needs]
            ways = islice(product(*each), _MOST_WAYS)
            found = tuple(command(recipe.makes, recipe.item, way) for way in ways)
            self._spellings[recipe] = found
        return found

    def _understand(self, action: str) -> ParsedAction:
        if found := _GET.fullmatch(action):
            return self._get(int(found[1]), found[2])
        if found := _CRAFT.fullmatch(action):
            return self._craft(found[1], found[2])
        return _refuse("Could not execute that.")

    def _get(self, number: int, item: str) -> ParsedAction:
        if item not in self._book.base:
            # only known words are said back: a small model can read no others
            known = item in self._book.recipes or item in self._book.kinds
            return _refuse(f"Could not find {item}" if known else "Could not find that.")
        if number < 1:
            return _refuse("Could not execute that.")
        return ParsedAction(Observation(f"Got {number} {item}"), item, number)

    def _craft(self, item: str, using: str) -> ParsedAction:
        parts = [_PART.fullmatch(part.strip()) for part in using.split(",")]
        given = [(int(part[1]), part[2]) for part in parts if part]
        ways = self._book.recipes.get(item)
        if ways is None or len(given) != len(parts):
            return _refuse("Could not find a recipe for that.")
        for way in ways:
            if len(given) <= _MOST_PARTS and self._match(way.needs, given):
                return _order(way, given)
        return _refuse(f"Could not find such a recipe for {item}")

    def _match(self, needs: Sequence[tuple[int, str]], given: list[tuple[int, str]]) -> bool:
        """Whether each need is met by one part, in any order; kinds by any thing of them."""
        if len(needs) != len(given):
            return False
        if not needs:
            return True
        number, name = needs[0]
        fitting = self._book.kinds.get(name, (name,))
        for index, (count, item) in enumerate(given):
            if count == number and item in fitting:
                rest = given[:index] + given[index + 1 :]
                if self._match(needs[1:], rest):
                    return True
        return False


def _refuse(text: str) -> ParsedAction:
    return ParsedAction(Observation(text))


def _order(way: Recipe, given: list[tuple[int, str]]) -> ParsedAction:
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
