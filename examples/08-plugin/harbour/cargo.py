"""World `cargo`: a ship comes in, and its goods belong into one of four houses."""

from hansa_worlds import Move, Observation, Task, World
from hansa_worlds.base import share

HOUSES = {
    "cloth": ("cotton", "silk", "wool"),
    "fruit": ("apple", "melon", "plum"),
    "stone": ("granite", "marble", "slate"),
    "wood": ("birch", "oak", "pine"),
}
HOUSE_OF = {goods: house for house, all_goods in HOUSES.items() for goods in all_goods}
SHIPS = ("black", "blue", "brown", "green", "orange", "red", "white", "yellow")


class Cargo(World):
    """A task is a ship with its goods; the words are ones that `builtin:tiny` knows."""

    name = "cargo"
    rules = (
        f"Bring the goods into the right house: {', '.join(HOUSES)}.\n"
        'Answer as "Thought: <why>", then a line "Action: go to HOUSE".'
    )
    brief = "Bring the goods into the house."
    max_turns = 2

    def tasks(self, split):
        """Every ship with all goods; each is in one split."""
        ships = [f"{ship} {goods}" for ship in SHIPS for goods in HOUSE_OF]
        return [
            Task(f"cargo: {each}", split, tuple(each.split()))
            for each in share(ships, split, self.name)
        ]

    def _begin(self, task):
        ship, self.goods = task.payload
        return f"The {ship} ship has {self.goods}."

    def _act(self, action):
        if action not in self.legal():
            return Observation("That is no action here.")
        right = action == f"go to {HOUSE_OF[self.goods]}"
        return Observation("Well." if right else "Not here.", float(right), done=True)

    def legal(self):
        """Every house."""
        return [f"go to {house}" for house in HOUSES]

    def expert(self):
        """Knows where everything belongs."""
        return Move(f"This is {HOUSE_OF[self.goods]}.", f"go to {HOUSE_OF[self.goods]}")
