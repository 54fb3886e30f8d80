"""TextCraft, small: craft a goal item from recipes that the prompt shows among distractors.

Goals of the splits are disjoint; a task is a goal with a seed that chooses the distractors and the
order of the recipes. Pre-training meets every goal (the tiny model's vocabulary must be known), but
with other seeds than any split's, so only goals repeat there, never tasks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from hansa_client.worlds.base import Observation, Options, Split, Task, TaskList, World, rng, share

_PER_GOAL: dict[Split, int] = {"train": 40, "validation": 20, "test": 30}
_MANY = 10**6
_GET = re.compile(r"get (\d{1,4}) (.+)")
_CRAFT = re.compile(r"craft (\d{1,4}) (.+?) using (.+)")
_PART = re.compile(r"(\d{1,4}) (.+)")


@dataclass(frozen=True)
class Recipe:
    """`craft 4 oak planks using 1 oak log`."""

    item: str
    makes: int
    needs: tuple[tuple[int, str], ...]

    @property
    def command(self) -> str:
        """The action that carries it out once."""
        needs = ", ".join(f"{number} {item}" for number, item in self.needs)
        return f"craft {self.makes} {self.item} using {needs}"


_WOODS = ("acacia", "birch", "jungle", "oak", "spruce")
_WOODEN = """
4 {w} planks: 1 {w} log
6 {w} slab: 3 {w} planks
3 {w} door: 6 {w} planks
1 {w} boat: 5 {w} planks
2 {w} trapdoor: 3 {w} planks
3 {w} fence: 4 {w} planks, 2 stick
3 {w} sign: 6 {w} planks, 1 stick
"""
_OTHER = """
4 stick: 2 oak planks
4 torch: 1 coal, 1 stick
3 ladder: 7 stick
1 bowl: 3 oak planks
1 chest: 8 oak planks
1 bread: 3 wheat
3 paper: 3 sugar cane
1 book: 3 paper, 1 leather
1 map: 3 paper, 1 compass
1 compass: 4 iron ingot, 1 redstone
1 clock: 4 gold ingot, 1 redstone
1 bucket: 3 iron ingot
1 shears: 2 iron ingot
1 lantern: 8 iron nugget, 1 torch
9 iron nugget: 1 iron ingot
1 bow: 3 stick, 3 string
4 arrow: 1 flint, 1 stick, 1 feather
1 painting: 8 stick, 1 wool
1 bed: 3 wool, 3 oak planks
1 cake: 3 milk, 2 sugar, 1 egg, 3 wheat
1 sugar: 1 sugar cane
1 cookie: 2 wheat, 1 cocoa
"""


def _read(line: str) -> Recipe:
    made, _, needs = line.partition(": ")
    number, _, item = made.partition(" ")
    parts = (part.partition(" ") for part in needs.split(", "))
    return Recipe(item, int(number), tuple((int(count), name) for count, _, name in parts))


RECIPES: dict[str, Recipe] = {
    recipe.item: recipe
    for recipe in map(
        _read,
        [line.format(w=wood) for wood in _WOODS for line in _WOODEN.split("\n")[1:-1]]
        + _OTHER.split("\n")[1:-1],
    )
}


def depth(item: str) -> int:
    """Crafting steps on the longest way down to things one can get."""
    recipe = RECIPES.get(item)
    return 0 if recipe is None else 1 + max(depth(part) for _, part in recipe.needs)


@cache
def tree(item: str) -> tuple[Recipe, ...]:
    """Every recipe needed for the item, the item's own first."""
    found: dict[str, Recipe] = {}
    edge = [item]
    while edge:
        recipe = RECIPES.get(edge.pop(0))
        if recipe and recipe.item not in found:
            found[recipe.item] = recipe
            edge.extend(part for _, part in recipe.needs)
    return tuple(found.values())


@cache
def goals(split: Split) -> tuple[str, ...]:
    """The items to craft; each depth is shared out, so every split holds easy and hard ones."""
    items = sorted(item for item in RECIPES if depth(item) <= 3)
    return tuple(
        item
        for level in (1, 2, 3)
        for item in share([i for i in items if depth(i) == level], split, "textcraft", level)
    )


class TextCraft(World):
    """Get what cannot be crafted, craft the rest; reward 1 when the goal item is crafted."""

    name = "textcraft"

    def __init__(self, options: Mapping[str, object]) -> None:
        read = Options(options)
        self.distractors = read.integer("distractors", 4, 0, 12)
        self.max_turns = read.integer("max_turns", 20, 1, 100)
        read.finish()
        self.options = dict(options)
        self._goal = ""
        self._shown: list[Recipe] = []
        self._commands: dict[str, Recipe] = {}
        self._gets: list[str] = []
        self._bag: dict[str, int] = {}

    def tasks(self, split: Split) -> Sequence[Task]:
        """Goals by seeds, goal after goal, so that the first few tasks are already varied."""
        chosen = goals(split)

        def build(index: int) -> Task:
            seed, which = divmod(index, len(chosen))
            return self._task(split, chosen[which], f"{split}-{seed}")

        return TaskList(len(chosen) * _PER_GOAL[split], build)

    def fresh(self, seed: int) -> Task:
        """Any goal, test ones too, with a seed of its own kind: the words must be known."""
        goal = rng("textcraft", "fresh", seed).choice(_every_goal())
        return self._task("train", goal, f"fresh-{seed}")

    def _task(self, split: Split, goal: str, seed: str) -> Task:
        return Task(f"textcraft-{goal.replace(' ', '-')}-{seed}", split, (goal, seed))

    def _begin(self, task: Task) -> str:
        self._goal, seed = task.payload
        draw = rng("textcraft", self._goal, seed)
        self._shown = list(tree(self._goal))
        known = {recipe.item for recipe in self._shown}
        others = [recipe for item, recipe in RECIPES.items() if item not in known]
        self._shown += draw.sample(others, self.distractors)
        draw.shuffle(self._shown)
        self._commands = {recipe.command: recipe for recipe in self._shown}
        crafted = {recipe.item for recipe in self._shown}
        self._gets = sorted(
            {
                f"get {number} {item}"
                for recipe in self._shown
                for number, item in recipe.needs
                if item not in crafted
            }
        )
        self._bag = {}
        return "\n".join(["Crafting commands:", *self._commands, f"Goal: craft {self._goal}."])

    def _act(self, action: str) -> Observation:
        if action == "inventory":
            held = ", ".join(f"{number} {item}" for item, number in sorted(self._bag.items()))
            return Observation(f"Inventory: {held or 'nothing'}")
        if match := _GET.fullmatch(action):
            return Observation(self._get(int(match[1]), match[2]))
        if match := _CRAFT.fullmatch(action):
            return self._craft(int(match[1]), match[2], match[3])
        return Observation("Could not execute that.")

    def _get(self, number: int, item: str) -> str:
        # As in TextCraft, what has a recipe must be crafted, whether the prompt shows it or not.
        if item not in _base_items():
            return f"Could not find {item}" if item in RECIPES else "Could not find that."
        if number < 1 or self._bag.get(item, 0) + number > _MANY:
            return "Could not execute that."
        self._bag[item] = self._bag.get(item, 0) + number
        return f"Got {number} {item}"

    def _craft(self, number: int, item: str, using: str) -> Observation:
        parts = [_PART.fullmatch(part.strip()) for part in using.split(",")]
        needs = sorted((int(part[1]), part[2]) for part in parts if part)
        recipe = RECIPES.get(item)
        if (
            recipe is None
            or recipe.makes != number
            or sorted(recipe.needs) != needs
            or len(needs) != len(parts)
        ):
            return Observation("Could not find a recipe for that.")
        if not self._has(recipe):
            return Observation("Could not find enough items.")
        for count, part in recipe.needs:
            self._bag[part] -= count
            if not self._bag[part]:
                del self._bag[part]
        self._bag[item] = self._bag.get(item, 0) + number
        if item == self._goal:
            return Observation(f"Crafted {number} {item}", 1.0, True)
        return Observation(f"Crafted {number} {item}")

    def _has(self, recipe: Recipe) -> bool:
        return all(self._bag.get(part, 0) >= count for count, part in recipe.needs)

    def legal(self) -> list[str]:
        """Gets of what the shown recipes need, and the crafts that the bag allows."""
        can = [command for command, recipe in self._commands.items() if self._has(recipe)]
        return [*self._gets, *can, "inventory"]

    def expert(self) -> str:
        """Depth first: the first thing that is missing is got or crafted next."""
        return self._make(self._goal)

    def _make(self, item: str) -> str:
        recipe = RECIPES[item]
        for count, part in recipe.needs:
            if self._bag.get(part, 0) < count:
                if part in RECIPES:
                    return self._make(part)
                return f"get {count} {part}"
        return recipe.command


@cache
def _base_items() -> frozenset[str]:
    used = {part for recipe in RECIPES.values() for _, part in recipe.needs}
    return frozenset(used - RECIPES.keys())


@cache
def _every_goal() -> tuple[str, ...]:
    return goals("train") + goals("validation") + goals("test")
