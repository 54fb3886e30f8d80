"""What all worlds over one book share: its goals by split, and the recipes that each needs."""

from dataclasses import dataclass
from functools import cache

from hansa_worlds.base import SPLITS, Split, rng
from hansa_worlds.textcraft import minecraft
from hansa_worlds.textcraft.book import Book, Recipe, load_own_book
from hansa_worlds.textcraft.orders import ActionParser
from hansa_worlds.textcraft.planner import can_reach

MOST_SHOWN = 100
"""Recipes that a goal may need to be shown: more is no prompt. TextCraft's own stay below."""
_TURN: tuple[Split, ...] = tuple(
    "test" if place % 4 == 0 else "validation" if place in (2, 9, 15) else "train"
    for place in range(20)
)
"""Who takes the next goal: 25 % test, 15 % validation, 60 % train; each among the first three."""


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
        self.orders = ActionParser(book)
        self.goals = cache(lambda depths, max_turns: choose_goals(book, shares, depths, max_turns))
        """Goals by split; planning them all takes a while, so each choice is kept."""
        self.page = cache(self._write_page)
        """The page of a goal, written when it is first opened."""

    def _write_page(self, goal: str) -> Page:
        tree = self.book.collect_recipes(goal)
        seen = set(tree)
        uses = (use for way in tree for _, part in way.needs for use in self.book.uses[part])
        near = tuple(dict.fromkeys(use for use in uses if use not in seen))
        seen.update(near)
        far = tuple(recipe for recipe in self.book.listed if recipe not in seen)
        return Page(tree, self.book.list_names_down(goal), near, far)


@cache
def load_shelf(recipes: str) -> Shelf:
    """The shelf of `full`, `small` or a folder's path.

    The small set's goals keep the splits that they have in the whole.
    """
    if recipes not in ("full", "small"):
        book = minecraft.read_folder(recipes)
        return Shelf(book, deal_splits(book))
    return Shelf(load_own_book(recipes == "small"), deal_splits(load_own_book(False)))


def deal_splits(book: Book) -> dict[str, Split]:
    """Every craftable item's split: dealt depth by depth, so that each split has all depths.

    Dealt before any option chooses among the goals: no option moves a goal to another split.
    """
    dealt = []
    for depth in sorted(set(book.depth.values())):
        items = sorted(item for item in book.recipes if book.depth[item] == depth)
        rng("textcraft", "split", depth).shuffle(items)
        dealt += items
    return {item: _TURN[place % len(_TURN)] for place, item in enumerate(dealt)}


def choose_goals(
    book: Book, shares: dict[str, Split], depths: tuple[int, ...], max_turns: int
) -> dict[Split, tuple[str, ...]]:
    """Goals of each split in mixed order: of these depths, readable, and in the expert's reach."""
    found: dict[Split, tuple[str, ...]] = {}
    for split in SPLITS:
        items = [
            item
            for item in sorted(book.recipes)
            if shares[item] == split
            and book.depth[item] in depths
            and len(book.collect_recipes(item, MOST_SHOWN + 1)) <= MOST_SHOWN
            and can_reach(book, book.list_names_down(item), max_turns)
        ]
        rng("textcraft", "order", split).shuffle(items)
        found[split] = tuple(items)
    return found
