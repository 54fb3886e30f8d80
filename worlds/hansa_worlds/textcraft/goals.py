"""Which items are goals, and which split each belongs to."""

from __future__ import annotations

from hansa_worlds.base import SPLITS, Split, rng
from hansa_worlds.textcraft.book import Book
from hansa_worlds.textcraft.planner import can_reach

MOST_SHOWN = 100
"""Recipes that a goal may need to be shown: more is no prompt. TextCraft's own stay below."""
_TURN: tuple[Split, ...] = tuple(
    "test" if place % 4 == 0 else "validation" if place in (2, 9, 15) else "train"
    for place in range(20)
)
"""Who takes the next goal: 25 % test, 15 % validation, 60 % train; each among the first three."""


def shared_out(book: Book) -> dict[str, Split]:
    """Every craftable item's split: dealt depth by depth, so that each split has all depths.

    Dealt before any option chooses among the goals: no option moves a goal to another split.
    """
    dealt = []
    for depth in sorted(set(book.depth.values())):
        items = sorted(item for item in book.recipes if book.depth[item] == depth)
        rng("textcraft", "split", depth).shuffle(items)
        dealt += items
    return {item: _TURN[place % len(_TURN)] for place, item in enumerate(dealt)}


def goals(
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
            and len(book.tree(item, MOST_SHOWN + 1)) <= MOST_SHOWN
            and can_reach(book, book.names_down(item), max_turns)
        ]
        rng("textcraft", "order", split).shuffle(items)
        found[split] = tuple(items)
    return found
