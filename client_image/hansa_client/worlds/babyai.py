"""BabyAI, small: one room, a mission in words, macro-actions that walk, the view of MiniGrid.

Only what lies in front of the agent is seen, so it must turn to find things. Differences from the
original, kept for a model of one million parameters: one room, objects all different, and
"next to" counts diagonal neighbours. Splits draw rooms from different seeds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from hansa_client.worlds.base import Observation, Options, Split, Task, TaskList, World, rng

Cell = tuple[int, int]

COLORS = ("red", "green", "blue", "purple", "yellow", "grey")
KINDS = ("ball", "box", "key")
THINGS = tuple(f"{color} {kind}" for color in COLORS for kind in KINDS)
MISSIONS = ("go to", "pick up", "put next to")
FACING: tuple[Cell, ...] = ((-1, 0), (0, 1), (1, 0), (0, -1))
"""Up, right, down, left: turning right is one further."""

_SIDE = 3
"""Cells seen to each side; MiniGrid's view is 7 x 7 with the agent in the middle of its edge."""
_MACRO = re.compile(r"(go to|pickup|pick up) (.+?)(?: (\d))?")
_SIZES: dict[Split, int] = {"train": 4_000, "validation": 400, "test": 400}


class BabyAI(World):
    """Reward is 1 - 0.9 * turn / max_turns on success: never 1, so success is reward > 0."""

    name = "babyai"

    def __init__(self, options: Mapping[str, object]) -> None:
        read = Options(options)
        self.size = read.integer("size", 7, 5, 12)
        self.objects = read.integer("objects", 5, 2, 8)
        self.actions = read.choice("actions", "all", ("all", "short"))
        self.max_turns = read.integer("max_turns", 20, 1, 100)
        read.finish()
        self.options = dict(options)
        self._where: dict[str, Cell] = {}
        self._things: dict[Cell, str] = {}
        self._at: Cell = (1, 1)
        self._face = 0
        self._held = ""
        self._mission = MISSIONS[0]
        self._target = ""
        self._beside = ""

    def tasks(self, split: Split) -> Sequence[Task]:
        """Rooms; their seeds name the split, so none is in two."""

        def build(index: int) -> Task:
            shape = f"{self.size}-{self.objects}"
            return Task(f"babyai-{shape}-{split}-{index}", split, (f"{split}/{index}",))

        return TaskList(_SIZES[split], build)

    def fresh(self, seed: int) -> Task:
        """A room from a seed of its own kind."""
        return Task(f"babyai-fresh-{seed}", "train", (f"fresh/{seed}",))

    # The room

    def _begin(self, task: Task) -> str:
        draw = rng("babyai", self.size, self.objects, task.payload[0])
        inside = range(1, self.size - 1)
        cells = [(row, column) for row in inside for column in inside]
        self._held = ""
        while True:
            spots = draw.sample(cells, self.objects + 1)
            names = draw.sample(THINGS, self.objects)
            self._at = spots.pop()
            self._face = draw.randrange(4)
            self._where = dict(zip(names, spots, strict=True))
            self._things = dict(zip(spots, names, strict=True))
            self._mission = draw.choice(MISSIONS)
            self._target, self._beside = names[:2]
            if self._is_fair():
                break
        return f"Your goal is to {self._goal()}.\n{self._look()}"

    def _is_fair(self) -> bool:
        """Not done already, and every thing of the mission can be reached."""
        needed = [self._target] if self._mission != MISSIONS[2] else [self._target, self._beside]
        if any(self._stand(thing) is None for thing in needed):
            return False
        if self._mission == MISSIONS[2]:
            return not _is_near(self._where[self._target], self._where[self._beside])
        return self._things.get(self._front()) != self._target

    def _goal(self) -> str:
        if self._mission == MISSIONS[2]:
            return f"put the {self._target} next to the {self._beside}"
        return f"{self._mission} the {self._target}"

    def _front(self) -> Cell:
        return _ahead_of(self._at, self._face)

    def _is_inside(self, cell: Cell) -> bool:
        return 0 < cell[0] < self.size - 1 and 0 < cell[1] < self.size - 1

    def _is_free(self, cell: Cell) -> bool:
        return self._is_inside(cell) and cell not in self._things

    def _seen(self) -> list[tuple[int, int, str]]:
        """Steps ahead, steps to the right (negative: left) and name of every thing in view."""
        down, right = FACING[self._face]
        row, column = self._at
        found = []
        for (there_row, there_column), thing in self._things.items():
            dy, dx = there_row - row, there_column - column
            ahead = dy * down + dx * right
            aside = dx * down * -1 + dy * right
            if ahead >= 0 and -_SIDE <= aside <= _SIDE:
                found.append((ahead, aside, thing))
        found.sort()
        return found

    def _stand(self, thing: str) -> tuple[Cell, int] | None:
        """The nearest cell beside a thing and the way to face there, if one can walk to it."""
        goal = self._where[thing]
        edge, known = [self._at], {self._at}
        while edge:
            reached: list[Cell] = []
            for cell in edge:
                for face, (down, right) in enumerate(FACING):
                    there = (cell[0] + down, cell[1] + right)
                    if there == goal:
                        return cell, face
                    if there not in known and self._is_free(there):
                        known.add(there)
                        reached.append(there)
            edge = reached
        return None

    # What is said

    def _look(self) -> str:
        parts = []
        for ahead, aside, thing in self._seen():
            ways = []
            if ahead:
                ways.append(f"{ahead} steps in front of you")
            if aside:
                ways.append(f"{abs(aside)} steps to your {'right' if aside > 0 else 'left'}")
            parts.append(f"{thing} 1 {' and '.join(ways)}")
        seen = f"You see {', '.join(parts)}. " if parts else "You see nothing. "
        held = f"You carry {self._held}. " if self._held else "You carry nothing. "
        return f"{seen}{self._ahead()}{held}Available actions: [{', '.join(self._offer())}]"

    def _ahead(self) -> str:
        down, right = FACING[self._face]
        row, column = self._at
        steps = 1
        while self._is_free((row + down * steps, column + right * steps)):
            steps += 1
        hit = self._things.get((row + down * steps, column + right * steps), "wall")
        return f"You face a wall {steps} steps away. " if hit == "wall" else ""

    def _offer(self) -> list[str]:
        if self.actions == "all":
            return self.legal()
        verbs = ["turn left", "turn right"]
        if self._is_free(self._front()):
            verbs.append("move forward")
            if self._held:
                verbs.append("drop")
        if self._seen():
            verbs.append("go to")
            if not self._held:
                verbs.append("pickup")
        return verbs

    # What is done

    def legal(self) -> list[str]:
        """What can be done here and changes something; macro-actions only for what is seen."""
        moves = ["turn left", "turn right"]
        if self._is_free(self._front()):
            moves.append("move forward")
            if self._held:
                moves.append("drop")
        for _, _, thing in self._seen():
            moves.append(f"go to {thing} 1")
            if not self._held:
                moves.append(f"pickup {thing} 1")
        return moves

    def _act(self, action: str) -> Observation:
        if not self._carry_out(action.lower()):
            return Observation(f"Nothing happens. {self._look()}")
        if self._is_reached():
            reward = 1 - 0.9 * self._turns / self.max_turns
            return Observation("The goal is reached.", reward, True)
        return Observation(self._look())

    def _carry_out(self, action: str) -> bool:
        if action in ("turn left", "turn right"):
            self._face = (self._face + (1 if action == "turn right" else 3)) % 4
        elif action == "move forward" and self._is_free(self._front()):
            self._at = self._front()
        elif action == "drop" and self._held and self._is_free(self._front()):
            self._where[self._held] = self._front()
            self._things[self._front()] = self._held
            self._held = ""
        elif match := _MACRO.fullmatch(action):
            return self._walk(match[1], match[2])
        else:
            return False
        return True

    def _walk(self, verb: str, thing: str) -> bool:
        if all(seen != thing for _, _, seen in self._seen()) or (verb != "go to" and self._held):
            return False
        stand = self._stand(thing)
        if stand is None:
            return False
        self._at, self._face = stand
        if verb != "go to":
            self._held = thing
            del self._things[self._where.pop(thing)]
        return True

    def _is_reached(self) -> bool:
        if self._mission == MISSIONS[0]:
            return self._things.get(self._front()) == self._target
        if self._mission == MISSIONS[1]:
            return self._held == self._target
        both = self._target in self._where and self._beside in self._where
        return both and _is_near(self._where[self._target], self._where[self._beside])

    def expert(self) -> str:
        """Turn right until the thing is in view, then walk; put down beside it, not on it."""
        wanted = "" if self._mission == MISSIONS[0] else self._target
        if self._held and self._held != wanted:
            return "drop" if self._is_free(self._front()) else "turn right"
        if not self._held:
            return self._find(self._target, "pickup" if wanted else "go to")
        spot = self._where[self._beside]
        if self._can_drop(self._at, self._face, spot):
            return "drop"
        stand = self._stand(self._beside)
        if stand is None or not any(self._can_drop(stand[0], face, spot) for face in range(4)):
            return self._route(lambda cell, face: self._can_drop(cell, face, spot))
        return "turn right" if stand[0] == self._at else self._find(self._beside, "go to")

    def _can_drop(self, cell: Cell, face: int, spot: Cell) -> bool:
        front = _ahead_of(cell, face)
        return self._is_free(front) and _is_near(front, spot)

    def _find(self, thing: str, verb: str) -> str:
        if any(seen == thing for _, _, seen in self._seen()):
            return f"{verb} {thing} 1"
        spot = self._where[thing]
        if _is_in_view(self._at, spot):
            return "turn right"
        return self._route(lambda cell, _: _is_in_view(cell, spot))

    def _route(self, is_there: Callable[[Cell, int], bool]) -> str:
        """The first primitive move of a shortest way to where the test holds."""
        edge = [(self._at, self._face, "")]
        known = {(self._at, self._face)}
        while edge:
            cell, face, first = edge.pop(0)
            if first and is_there(cell, face):
                return first
            for move, there, facing in (
                ("turn right", cell, (face + 1) % 4),
                ("turn left", cell, (face + 3) % 4),
                ("move forward", _ahead_of(cell, face), face),
            ):
                if (there, facing) not in known and (there == cell or self._is_free(there)):
                    known.add((there, facing))
                    edge.append((there, facing, first or move))
        return "turn right"


def _ahead_of(cell: Cell, face: int) -> Cell:
    return cell[0] + FACING[face][0], cell[1] + FACING[face][1]


def _is_in_view(cell: Cell, spot: Cell) -> bool:
    """Whether some way of facing at the cell shows the spot."""
    return min(abs(cell[0] - spot[0]), abs(cell[1] - spot[1])) <= _SIDE


def _is_near(one: Cell, other: Cell) -> bool:
    return max(abs(one[0] - other[0]), abs(one[1] - other[1])) == 1
