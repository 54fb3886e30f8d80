"""Maze of LMRL-Gym: find the goal from positions and walls in words.

The default map is the fixed double-T maze that AgentGym plays: 25 starts, all of them test tasks.
Its train and validation tasks, and every task of `map: generated`, are mazes grown from a seed;
the splits draw from different seeds, so no maze is shared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hansa_client.worlds.base import Observation, Options, Split, Task, TaskList, World, rng

Cell = tuple[int, int]

MOVES: dict[str, Cell] = {
    "move up": (-1, 0),
    "move down": (1, 0),
    "move left": (0, -1),
    "move right": (0, 1),
}
_SIDES = {"to your right": "move right", "to your left": "move left"}
_SIDES |= {"above you": "move up", "below you": "move down"}  # LMRL-Gym's order

INSTRUCTION = "Reach the goal. Actions: move up, move down, move left, move right.\n"

DOUBLE_T = (
    "#############",
    "#.....#.....#",
    "###.#####.###",
    "###.#####.###",
    "###.#####.###",
    "###.......###",
    "######.######",
    "######.######",
    "######.######",
    "#############",
)
DOUBLE_T_GOAL: Cell = (8, 6)

_SIZES: dict[Split, int] = {"train": 4_000, "validation": 400, "test": 400}


class Maze(World):
    """Walk to the goal; reward 1 there, walking into a wall costs the turn."""

    name = "maze"

    def __init__(self, options: Mapping[str, object]) -> None:
        read = Options(options)
        self.map = read.choice("map", "double-t", ("double-t", "generated"))
        self.size = read.integer("size", 6, 4, 12)
        self.max_turns = read.integer("max_turns", 15, 1, 100)
        read.finish()
        self.options = dict(options)
        self._free: frozenset[Cell] = frozenset()
        self._distance: dict[Cell, int] = {}
        self._goal: Cell = (0, 0)
        self._at: Cell = (0, 0)

    def tasks(self, split: Split) -> Sequence[Task]:
        """The double-T's starts are test tasks only: nobody trains on the map they measure."""
        if split == "test" and self.map == "double-t":
            starts = sorted(_cells(DOUBLE_T) - {DOUBLE_T_GOAL})
            return [
                Task(f"maze-double-t-{row}-{column}", "test", ("double-t", str(row), str(column)))
                for row, column in starts
            ]

        def build(index: int) -> Task:
            seed = f"{split}/{index}"
            return Task(f"maze-{self.size}-{split}-{index}", split, ("generated", seed))

        return TaskList(_SIZES[split], build)

    def fresh(self, seed: int) -> Task:
        """A maze from a seed of its own kind."""
        return Task(f"maze-{self.size}-fresh-{seed}", "train", ("generated", f"fresh/{seed}"))

    def _begin(self, task: Task) -> str:
        if task.payload[0] == "double-t":
            self._free, self._goal = _cells(DOUBLE_T), DOUBLE_T_GOAL
            self._at = (int(task.payload[1]), int(task.payload[2]))
        else:
            self._free, self._goal, self._at = generate(task.payload[1], self.size, self.max_turns)
        self._distance = {}
        return INSTRUCTION + self._look()

    def _act(self, action: str) -> Observation:
        move = MOVES.get(action.lower())
        if move is None:
            return Observation("That is no action. " + self._look())
        there = (self._at[0] + move[0], self._at[1] + move[1])
        if there in self._free:
            self._at = there
        if self._at == self._goal:
            return Observation("You reached the goal.", 1.0, True)
        return Observation(self._look())

    def _look(self) -> str:
        walls = [side for side, move in _SIDES.items() if not self._is_open(move)]
        (goal_row, goal_column), (row, column) = self._goal, self._at
        if not walls:
            said = "There are no walls near you."
        elif len(walls) == 1:
            said = f"There is a wall {walls[0]}."
        else:
            said = f"There are walls {', '.join(walls)}."
        return (
            f"The goal is at position {goal_row}, {goal_column}. "
            f"Your current position is at position {row}, {column}. {said}"
        )

    def _is_open(self, move: str) -> bool:
        down, right = MOVES[move]
        return (self._at[0] + down, self._at[1] + right) in self._free

    def legal(self) -> list[str]:
        """The moves that no wall stops."""
        return [move for move in MOVES if self._is_open(move)]

    def expert(self) -> str:
        """A step of a shortest path."""
        if not self._distance:
            self._distance = distances(self._free, self._goal)
        row, column = self._at
        return min(
            self.legal(),
            key=lambda move: self._distance[row + MOVES[move][0], column + MOVES[move][1]],
        )


def _cells(rows: Sequence[str]) -> frozenset[Cell]:
    return frozenset(
        (r, c) for r, row in enumerate(rows) for c, mark in enumerate(row) if mark == "."
    )


def distances(free: frozenset[Cell], goal: Cell) -> dict[Cell, int]:
    """Steps to the goal from every cell that reaches it, breadth first."""
    found = {goal: 0}
    edge = [goal]
    while edge:
        reached: list[Cell] = []
        for row, column in edge:
            far = found[row, column] + 1
            for down, right in MOVES.values():
                cell = (row + down, column + right)
                if cell in free and cell not in found:
                    found[cell] = far
                    reached.append(cell)
        edge = reached
    return found


def generate(seed: str, size: int, turns: int) -> tuple[frozenset[Cell], Cell, Cell]:
    """Free cells, goal and start of a maze of size x size that can be solved within the turns.

    Cells are freed one after another: always beside a free one, and mostly where they touch only
    that one, which gives corridors with a few loops.
    """
    draw = rng("maze", size, seed)
    goal = (draw.randint(1, size), draw.randint(1, size))
    free = {goal}
    steps = list(MOVES.values())
    grown = [goal]
    wanted = size * size * 3 // 5
    for _ in range(40 * wanted):  # a bound, since a maze may have no room left to grow
        if len(free) == wanted:
            break
        # Mostly from the newest cell: long corridors; sometimes from any: branches.
        index = -1 if draw.random() < 0.5 else int(draw.random() * len(grown))
        row, column = grown[index]
        down, right = steps[int(draw.random() * 4)]
        cell = (row + down, column + right)
        if cell in free or not (1 <= cell[0] <= size and 1 <= cell[1] <= size):
            continue
        touching = sum((cell[0] + d, cell[1] + r) in free for d, r in steps)
        if touching > 1 and draw.random() < 0.85:
            continue
        free.add(cell)
        grown.append(cell)
    frozen = frozenset(free)
    far = distances(frozen, goal)
    fair = [cell for cell in sorted(far) if 3 <= far[cell] <= min(turns, size + 2)]
    start = draw.choice(fair or [cell for cell in sorted(far) if cell != goal])
    return frozen, goal, start
