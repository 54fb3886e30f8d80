"""Hansa's own recipes, read from the list that lies beside this module."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

from hansa_worlds.textcraft.book import Book, Recipe

_LIST = re.compile(r"(\w+) = (.+)")
_LINE = re.compile(r"(\* )?(\d+) ([^(:]+?)(?: \((.+)\))?: (.+)")
_SLOT = re.compile(r"\{(\w+)\}")


@cache
def load_own_book(small: bool) -> Book:
    """The whole list, or the starred lines over the first words of each list."""
    text = files(__package__).joinpath("recipes.txt").read_text(encoding="utf-8")
    return Book(read_recipes(text, small))


def read_recipes(text: str, small: bool) -> Iterator[Recipe]:
    """Recipes of a list in its order; its first lines say how it is written."""
    lists: dict[str, list[str]] = {}
    for line in text.splitlines():
        if found := _LIST.fullmatch(line):
            first, _, rest = found[2].partition(" | ")
            lists[found[1]] = first.split() + ([] if small else rest.split())
        elif (found := _LINE.fullmatch(line)) and (found[1] or not small):
            slot = _SLOT.search(line)
            for word in lists[slot[1]] if slot else [""]:
                yield _parse_recipe(*(_SLOT.sub(word, part or "") for part in found.groups()[1:]))


def _parse_recipe(makes: str, item: str, kind: str, needs: str) -> Recipe:
    parts = (part.partition(" ") for part in needs.split(", "))
    return Recipe(item, int(makes), tuple((int(n), name) for n, _, name in parts), kind)
