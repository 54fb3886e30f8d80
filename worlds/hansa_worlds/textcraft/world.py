"""TextCraft: craft a goal item from recipes that the prompt shows among distractors."""

import random
from collections.abc import Mapping, Sequence

from hansa_worlds.base import SPLITS, Move, Observation, Split, Task, TaskList, World, rng
from hansa_worlds.errors import OptionError
from hansa_worlds.textcraft.book import Recipe
from hansa_worlds.textcraft.orders import ParsedAction
from hansa_worlds.textcraft.planner import choose_move, make_plan
from hansa_worlds.textcraft.shelf import load_shelf

DEPTHS = (1, 2, 3, 4)
"""Depths of TextCraft's own goals."""
_DEEP = 12
"""Depth from which on all goals are one kind."""

_RULES = """\
You craft things. You are shown crafting commands, of which you need only some, and a goal.
Each turn you take one of these actions:
get N item (fetches what no command makes, for example: get 2 oak log)
craft N item using N item, N item (carries out one crafting command with what you carry)
inventory (tells what you carry)
What a command makes cannot be fetched, it must be crafted. Where a command needs a kind of thing, \
such as planks, name one that you carry, such as oak planks.
You succeed when you craft the goal within {turns} turns.
Answer each turn with one sentence of reasoning and one action, in this form:
Thought: ...
Action: ..."""


class TextCraft(World):
    """Get what cannot be crafted, craft the rest; reward 1 when the goal item is crafted.

    A task is a goal and a seed that chooses the distractors and the order of the commands. The
    splits are disjoint by goal; `variants` says how many seeds each goal is played with.
    """

    name = "textcraft"
    brief = "Craft the goal with get and craft."

    def __init__(self, options: Mapping[str, object]) -> None:
        read = self._read(options)
        self.distractors = read.integer("distractors", 10, 0, 40)
        self.variants = read.integer("variants", 1, 1, 1000)
        depths = read.integers("depths", DEPTHS, 1, 20)
        recipes = read.text("recipes", "full")
        read.finish()
        self.rules = _RULES.format(turns=self.max_turns)
        self._shelf = load_shelf(recipes)
        self._goals = self._shelf.goals(depths, self.max_turns)
        for split in SPLITS:
            if not self._goals[split]:
                raise OptionError(
                    f"options: got recipes {recipes!r}, depths {list(depths)} and max_turns "
                    f"{self.max_turns}, expected some that leave a goal for {split}"
                )
        self._goal = ""
        self._shown: tuple[Recipe, ...] = ()
        self._bag: dict[str, int] = {}

    def tasks(self, split: Split) -> Sequence[Task]:
        """Goals by seeds, goal after goal, so that the first few tasks are already varied."""
        chosen = self._goals[split]

        def build(index: int) -> Task:
            seed, which = divmod(index, len(chosen))
            return self._make_task(split, chosen[which], str(seed))

        return TaskList(len(chosen) * self.variants, build)

    def fresh(self, seed: int) -> Task:
        """A goal of the train split among distractors that none of its tasks has."""
        goal = rng("textcraft", "fresh", seed).choice(self._goals["train"])
        return self._make_task("train", goal, f"fresh-{seed}")

    def _make_task(self, split: Split, goal: str, seed: str) -> Task:
        return Task(f"textcraft-{goal.replace(' ', '-')}-{seed}", split, (goal, seed))

    def group(self, task: Task) -> str:
        """How many crafts deep the goal is."""
        depth = self._shelf.book.depth[task.payload[0]]
        return f"depth {depth:02d}" if depth < _DEEP else f"depth {_DEEP} or more"

    def _begin(self, task: Task) -> str:
        self._goal, seed = task.payload
        self._shown = self._show(rng("textcraft", self._goal, seed))
        self._bag = {}
        lines = "\n".join(recipe.command for recipe in self._shown)
        return f"Crafting commands:\n{lines}\n\nGoal: craft {self._goal}."

    def _show(self, draw: random.Random) -> tuple[Recipe, ...]:
        """The goal's recipes among distractors, of which half use the same things."""
        page = self._shelf.page(self._goal)
        some = draw.sample(page.near, min((self.distractors + 1) // 2, len(page.near)))
        others = draw.sample(page.far, min(self.distractors - len(some), len(page.far)))
        shown = [*page.tree, *some, *others]
        draw.shuffle(shown)
        return tuple(shown)

    def _act(self, action: str) -> Observation:
        if action == "inventory":
            held = " ".join(f"[{item}] ({number})" for item, number in sorted(self._bag.items()))
            return Observation(f"Inventory: {held or 'You are not carrying anything.'}")
        order = self._shelf.orders.read(action)
        if not order.gives:
            return order.seen
        if not self._has_ingredients(order):
            return order.lacks
        bag = self._bag
        for item, number in order.takes:
            bag[item] -= number
            if not bag[item]:
                del bag[item]
        bag[order.gives] = bag.get(order.gives, 0) + order.number
        if order.gives == self._goal:
            return Observation(order.seen.text, 1.0, True)
        return order.seen

    def _has_ingredients(self, order: ParsedAction) -> bool:
        bag = self._bag
        return all(bag.get(item, 0) >= number for item, number in order.takes)

    def legal(self) -> list[str]:
        """Gets of what the shown recipes need, and the crafts that the bag allows."""
        base = self._shelf.book.base
        gets = [f"get {number} {item}" for number, item in self._list_needs() if item in base]
        crafts = [
            line
            for line in self._list_crafts()
            if self._has_ingredients(self._shelf.orders.read(line))
        ]
        return [*sorted(gets), *crafts, "inventory"]

    def actions(self) -> list[str]:
        """A get of everything the prompt names, and every command with the things it names."""
        gets = [f"get {number} {item}" for number, item in self._list_needs()]
        named = {recipe.item for recipe in self._shown} | {item for _, item in self._list_needs()}
        read = self._shelf.orders.read
        crafts = [
            line
            for line in self._list_crafts()
            if all(item in named for item, _ in read(line).takes)
        ]
        return [*sorted(gets), *crafts, "inventory"]

    def _list_needs(self) -> dict[tuple[int, str], None]:
        return {need: None for recipe in self._shown for need in recipe.needs}

    def _list_crafts(self) -> list[str]:
        return [line for recipe in self._shown for line in self._shelf.orders.spellings(recipe)]

    def expert(self) -> Move:
        """The first step of a plan that counts what is missing from the goal down."""
        names = self._shelf.page(self._goal).names
        return choose_move(make_plan(self._shelf.book, names, self._bag), self._goal)

    def greedy(self, draw: random.Random) -> str:
        """Looks one step ahead: craft the goal, else bring what it needs, else anything."""
        moves = self.legal()
        brings = {action: self._shelf.orders.read(action).gives for action in moves}
        goal = [action for action in moves if brings[action] == self._goal]
        book = self._shelf.book
        needs = (part for way in book.recipes[self._goal] for _, part in way.needs)
        parts = {item for part in needs for item in book.kinds.get(part, (part,))}
        lacking = parts - self._bag.keys()
        useful = [action for action in moves if brings[action] in lacking]
        return draw.choice(goal or useful or moves)
