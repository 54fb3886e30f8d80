"""A book of recipes without cycles: what is made of what, how deep, and what can be got.

Hansa's own is read from the list that lies beside this module.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")

_LIST = re.compile(r"(\w+) = (.+)")
_LINE = re.compile(r"(\* )?(\d+) ([^(:]+?)(?: \((.+)\))?: (.+)")
_SLOT = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, eq=False)
class Recipe:
    """`craft 4 oak planks using 1 oak log`; equal only to itself, which is quick to look up."""

    item: str
    makes: int
    needs: tuple[tuple[int, str], ...]
    """Amounts and names; the name of a kind means any item of that kind."""
    kind: str = ""
    """What the item is one of: `planks`."""

    @cached_property
    def command(self) -> str:
        """The line of the prompt, and the action, that carries it out once."""
        return format_command(self.makes, self.item, self.needs)


def format_command(makes: int, item: str, needs: Iterable[tuple[int, str]]) -> str:
    """A craft action in the one spelling that this world writes."""
    return f"craft {makes} {item} using {', '.join(f'{number} {part}' for number, part in needs)}"


class Book:
    """Recipes as given, without those that would close a cycle: the first in the order stays.

    Iron blocks are made of ingots and ingots of blocks; with both in the book neither could ever
    be got, since what has a recipe must be crafted. As in TextCraft, the later one is left out.
    Books are shared by every world of a process: nobody changes one.
    """

    def __init__(self, recipes: Iterable[Recipe], skipped: Mapping[str, int] | None = None) -> None:
        self.skipped: Counter[str] = Counter(skipped or {})
        """Recipes that were read and left out, by reason."""
        self._below: dict[str, dict[str, None]] = {}
        self._written: set[str] = set()
        kept = [recipe for recipe in recipes if self._add(recipe)]
        self.recipes = _gather((recipe.item, recipe) for recipe in kept)
        """Item to the ways to craft it."""
        kinds = _gather((r.kind, r.item) for r in kept if r.kind and r.kind not in self.recipes)
        self.kinds = {kind: tuple(dict.fromkeys(items)) for kind, items in kinds.items()}
        """Kind to the things that are of it, all of them crafted."""
        used = {part for recipe in kept for _, part in recipe.needs}
        self.base = frozenset(used - self.recipes.keys() - self.kinds.keys())
        """What can be got: everything used that nothing makes."""
        self.order = _sort_bottom_up(self._below, sorted({*self.recipes, *self.kinds}))
        """Every name, each after all that it is made of."""
        self._measure()

    def _add(self, recipe: Recipe) -> bool:
        """Add the recipe to the graph unless it is there already or closes a cycle."""
        if recipe.command in self._written:
            self.skipped["twice"] += 1
            return False
        tops = {recipe.item, recipe.kind} - {""}
        # the item's earlier ways count too: they may need the kind that it joins only now
        parts = [*(part for _, part in recipe.needs), *self._below.get(recipe.item, ())]
        if _reaches(self._below, parts, tops):
            self.skipped["circle"] += 1
            return False
        self._written.add(recipe.command)
        self._below.setdefault(recipe.item, {}).update((part, None) for _, part in recipe.needs)
        if recipe.kind and recipe.kind != recipe.item:
            self._below.setdefault(recipe.kind, {})[recipe.item] = None
        return True

    def _measure(self) -> None:
        """Depths and efforts, bottom up, so that no chain of recipes is too long for the stack."""
        self.depth: dict[str, int] = dict.fromkeys(self.base, 0)
        """Crafting steps on the longest way down, by the shallowest way to make each thing."""
        self.effort: dict[str, int] = dict.fromkeys(self.base, 1)
        """About how many actions a thing takes from nothing; chooses between ways."""
        self.rank: dict[str, int] = {}
        """Levels on the longest way down through any way: higher than everything below."""
        for name in self.order:
            below = [self.rank[part] for part in self._below.get(name, ())]
            self.rank[name] = 1 + max(below, default=-1)
            if name in self.recipes:
                ways = self.recipes[name]
                deepest = (max(self.depth[part] for _, part in way.needs) for way in ways)
                self.depth[name] = 1 + min(deepest)
                self.effort[name] = min(map(self.estimate_actions, ways))
            elif name in self.kinds:
                self.depth[name] = min(self.depth[item] for item in self.kinds[name])
                self.effort[name] = min(self.effort[item] for item in self.kinds[name])

    def estimate_actions(self, way: Recipe) -> int:
        """About how many actions one way takes from nothing; capped, as it doubles per level."""
        return min(1 + sum(self.effort[part] for _, part in way.needs), 10**9)

    @cached_property
    def uses(self) -> dict[str, tuple[Recipe, ...]]:
        """Name to the recipes that need it."""
        return _gather(
            (part, recipe)
            for item in sorted(self.recipes)
            for recipe in self.recipes[item]
            for _, part in recipe.needs
        )

    @cached_property
    def listed(self) -> tuple[Recipe, ...]:
        """All recipes, sorted by what they make."""
        return tuple(recipe for item in sorted(self.recipes) for recipe in self.recipes[item])

    def collect_recipes(self, goal: str, most: int | None = None) -> tuple[Recipe, ...]:
        """Every recipe that may be of use for the goal, its own first; `most` of them, about."""
        seen, edge = {goal}, [goal]
        found: list[Recipe] = []
        for name in edge:
            found.extend(self.recipes.get(name, ()))
            if most is not None and len(found) >= most:
                break
            new = [part for part in self._below.get(name, ()) if part not in seen]
            seen.update(new)
            edge.extend(new)
        return tuple(found)

    def list_names_down(self, goal: str) -> tuple[str, ...]:
        """The goal and every name below it, each before all that it is made of.

        A kind comes after the things of its rank, which may have settled which of it is at hand.
        """
        below = _sort_bottom_up(self._below, [goal])
        return tuple(sorted(below, key=lambda n: (-self.rank[n], n in self.kinds, n)))


def _gather(pairs: Iterable[tuple[K, V]]) -> dict[K, tuple[V, ...]]:
    found: dict[K, list[V]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return {key: tuple(values) for key, values in found.items()}


def _reaches(below: Mapping[str, Iterable[str]], start: Sequence[str], tops: set[str]) -> bool:
    """Whether a way down from `start` leads to one of `tops`."""
    edge, seen = list(start), set(start)
    while edge:
        name = edge.pop()
        if name in tops:
            return True
        new = [part for part in below.get(name, ()) if part not in seen]
        seen.update(new)
        edge.extend(new)
    return False


def _sort_bottom_up(below: Mapping[str, Iterable[str]], start: Sequence[str]) -> list[str]:
    """Names in an order where each follows all below it; the same for the same input."""
    done: dict[str, None] = {}
    stack = list(reversed(start))
    while stack:
        name = stack[-1]
        open_ = [part for part in below.get(name, ()) if part not in done]
        if open_:
            stack.extend(reversed(open_))
        else:
            done[stack.pop()] = None
    return list(done)


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
