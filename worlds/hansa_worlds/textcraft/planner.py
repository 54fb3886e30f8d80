"""The expert's plan: all that is missing for the goal, counted down from it through the recipes."""

from collections.abc import Mapping
from dataclasses import dataclass

from hansa_worlds.base import Move
from hansa_worlds.textcraft.book import Book, Recipe, format_command


@dataclass(frozen=True)
class CraftingPlan:
    """What to get and to craft, from what the bag holds to the goal."""

    gets: dict[str, int]
    """Item to the number still missing: fetched at once, before the first craft that needs it."""
    crafts: list[tuple[Recipe, int]]
    """Recipes and how often each, in an order that works."""
    choice: dict[str, str]
    """Kind to the item that is used for it."""

    @property
    def turns(self) -> int:
        """Actions until the goal."""
        return len(self.gets) + sum(times for _, times in self.crafts)

    def list_parts(self, recipe: Recipe) -> list[tuple[int, str]]:
        """The recipe's needs with things in place of kinds."""
        return [(number, self.choice.get(part, part)) for number, part in recipe.needs]


def make_plan(book: Book, names: tuple[str, ...], bag: Mapping[str, int]) -> CraftingPlan:
    """A plan for the first of `names`, which `book.names_down` gave.

    Asked again after its first move, the plan is the rest of itself or shorter, but for books in
    which kinds are made of kinds that share their things: so `can_reach` plays it out.
    """
    want = {names[0]: 1}
    done = CraftingPlan({}, [], {})
    for name in names:
        missing = want.get(name, 0)
        if name in book.kinds and missing:
            item = done.choice[name] = _choose(book, name, missing, want, bag)
            want[item] = want.get(item, 0) + missing
            continue
        if name != names[0]:  # the goal counts when it is crafted, not when it is there
            missing -= bag.get(name, 0)
        if missing <= 0:
            continue
        if name in book.base:
            done.gets[name] = missing
            continue
        way = min(book.recipes[name], key=book.estimate_actions)
        times = -(-missing // way.makes)
        done.crafts.append((way, times))
        for number, part in way.needs:
            want[part] = want.get(part, 0) + number * times
    done.crafts.reverse()
    return done


def _choose(
    book: Book, kind: str, number: int, want: Mapping[str, int], bag: Mapping[str, int]
) -> str:
    """The item to use for a kind: one to spare, one needed anyway, or the easiest."""
    return min(
        book.kinds[kind],
        key=lambda item: (
            bag.get(item, 0) - want.get(item, 0) < number,
            item not in want,
            book.effort[item],
            item,
        ),
    )


def can_reach(book: Book, names: tuple[str, ...], max_turns: int) -> bool:
    """Whether the expert has the goal within a number of turns."""
    if make_plan(book, names, {}).turns > max_turns:
        return False
    bag: dict[str, int] = {}
    for _ in range(max_turns):
        done = make_plan(book, names, bag)
        if (part := _find_missing(done)) is not None:
            bag[part] = bag.get(part, 0) + done.gets[part]
            continue
        recipe = done.crafts[0][0]
        if recipe.item == names[0]:
            return True
        for number, part in done.list_parts(recipe):
            bag[part] -= number
        bag[recipe.item] = bag.get(recipe.item, 0) + recipe.makes
    return False


def choose_move(done: CraftingPlan, goal: str) -> Move:
    """The first action of a plan, with the reason that the prompt gives for it."""
    recipe = done.crafts[0][0]
    if (part := _find_missing(done)) is not None:
        thought = f"{recipe.item} needs {part}, and no command makes {part}, so I get it."
        return Move(thought, f"get {done.gets[part]} {part}")
    action = format_command(recipe.makes, recipe.item, done.list_parts(recipe))
    if recipe.item == goal:
        return Move(f"I have all that {goal} needs, so I craft the goal.", action)
    item = recipe.item
    user, part = next(  # the next recipe that uses it, and the name by which it does
        (recipe.item, part)
        for recipe, _ in done.crafts
        for _, part in recipe.needs
        if done.choice.get(part, part) == item
    )
    such = f"{user} needs {part}" if part == item else f"it serves as {part} for {user}"
    return Move(f"I have all that {item} needs, and {such}.", action)


def _find_missing(done: CraftingPlan) -> str | None:
    """What the first craft of the plan still lacks."""
    return next((part for _, part in done.list_parts(done.crafts[0][0]) if part in done.gets), None)
