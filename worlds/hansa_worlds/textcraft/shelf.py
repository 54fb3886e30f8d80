"""What all worlds over one book share, looked up once per process."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from hansa_worlds.base import Split
from hansa_worlds.textcraft import minecraft
from hansa_worlds.textcraft.book import Book, Recipe
from hansa_worlds.textcraft.goals import goals, shared_out
from hansa_worlds.textcraft.listing import own_book
from hansa_worlds.textcraft.orders import Orders


@dataclass(frozen=True)
class Page:
    """What every episode of one goal needs."""

    tree: tuple[Recipe, ...]
    """The recipes that may be of use."""
    names: tuple[str, ...]
    """Everything below the goal, for the planner."""
    near: tuple[Recipe, ...]
    """Recipes of no use that need the same things."""
    far: tuple[Recipe, ...]
    """All the others."""


class Shelf:
    """A book, how its actions read, and its goals by options."""

    def __init__(self, book: Book, shares: dict[str, Split]) -> None:
        self.book = book
        self.orders = Orders(book)
        self._shares = shares
        self._pages: dict[str, Page] = {}
        self._goals: dict[tuple[tuple[int, ...], int], dict[Split, tuple[str, ...]]] = {}

    def goals(self, depths: tuple[int, ...], max_turns: int) -> dict[Split, tuple[str, ...]]:
        """Goals by split; planning them all takes a while, so each choice is kept."""
        key = depths, max_turns
        if key not in self._goals:
            self._goals[key] = goals(self.book, self._shares, *key)
        return self._goals[key]

    def page(self, goal: str) -> Page:
        """The goal's page, written when it is first opened."""
        if goal not in self._pages:
            self._pages[goal] = self._write(goal)
        return self._pages[goal]

    def _write(self, goal: str) -> Page:
        tree = self.book.tree(goal)
        seen = set(tree)
        uses = (use for way in tree for _, part in way.needs for use in self.book.uses[part])
        near = tuple(dict.fromkeys(use for use in uses if use not in seen))
        seen.update(near)
        far = tuple(recipe for recipe in self.book.listed if recipe not in seen)
        return Page(tree, self.book.names_down(goal), near, far)


@cache
def shelf(recipes: str) -> Shelf:
    """The shelf of `full`, `small` or a folder's path.

    The small set's goals keep the splits that they have in the whole.
    """
    if recipes not in ("full", "small"):
        book = minecraft.read(recipes)
        return Shelf(book, shared_out(book))
    return Shelf(own_book(recipes == "small"), shared_out(own_book(False)))
