"""Maps of the maze world: which cells are free, what is seen in each, and how far the goal is."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property
from typing import NamedTuple

from hansa_worlds.base import Observation

Cell = tuple[int, int]
"""Row and column; rows count downwards."""

MOVES: dict[str, Cell] = {
    "move up": (-1, 0),
    "move down": (1, 0),
    "move left": (0, -1),
    "move right": (0, 1),
}
_SIDES = {"to your right": "move right", "to your left": "move left"}
_SIDES |= {"above you": "move up", "below you": "move down"}  # LMRL-Gym's order

STEPS = tuple(MOVES.values())

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


class CellView(NamedTuple):
    """What a cell shows and where one can go from it."""

    seen: Observation
    ways: dict[str, Cell]


class Map:
    """A maze that never changes; what its cells show is worked out once, when first asked for."""

    def __init__(
        self,
        free: frozenset[Cell],
        goal: Cell,
        start: Cell,
        low: Cell | None = None,
    ) -> None:
        self.free = free
        self.goal = goal
        self.start = start
        self.low = low
        """A wall that can be climbed, against the rules; distances go around it."""
        self._places: dict[Cell, CellView] = {}

    def view_cell(self, cell: Cell) -> CellView:
        """The place at a free cell."""
        found = self._places.get(cell)
        if found is None:
            found = self._places[cell] = self._look(cell)
        return found

    def measure_manhattan(self, cell: Cell) -> int:
        """Steps to the goal if there were no walls."""
        return abs(cell[0] - self.goal[0]) + abs(cell[1] - self.goal[1])

    @cached_property
    def distances(self) -> dict[Cell, int]:
        """Steps to the goal from every free cell."""
        return measure_distances(self.free, self.goal)

    def add_low_wall(self) -> Map | None:
        """The maze with its wall low where climbing it saves most moves; None: nowhere does it."""
        begun = measure_distances(self.free, self.start)
        ways: dict[Cell, int] = {}
        for cell in {beside for free in self.free for beside in _list_neighbours(free)} - self.free:
            ends = [near for near in _list_neighbours(cell) if near in self.free]
            there, on = min(begun[e] for e in ends), min(self.distances[e] for e in ends)
            ways[cell] = there + on + 2
        best = min(ways, key=lambda cell: (ways[cell], cell))
        if ways[best] >= begun[self.goal]:
            return None
        return Map(self.free, self.goal, self.start, best)

    def _look(self, cell: Cell) -> CellView:
        row, column = cell
        ways = {
            move: (row + down, column + right)
            for move, (down, right) in MOVES.items()
            if (row + down, column + right) in self.free or (row + down, column + right) == self.low
        }
        if cell == self.goal:
            return CellView(Observation("Success", 1.0, True), ways)
        goal_row, goal_column = self.goal
        return CellView(
            Observation(
                f"The goal is at position {goal_row}, {goal_column}. "
                f"Your current position is at position {row}, {column}. "
                f"{self._describe_low_walls(ways)}{_describe_walls(ways)}"
            ),
            ways,
        )

    def _describe_low_walls(self, ways: dict[str, Cell]) -> str:
        low = [side for side, move in _SIDES.items() if self.low and ways.get(move) == self.low]
        return f"There is a low wall {low[0]}. " if low else ""


def _describe_walls(ways: dict[str, Cell]) -> str:
    walls = [side for side, move in _SIDES.items() if move not in ways]
    if not walls:
        return "There are no walls near you."
    if len(walls) == 1:
        return f"There is a wall {walls[0]}."
    return f"There are walls {', '.join(walls)}."


def _list_neighbours(cell: Cell) -> list[Cell]:
    return [(cell[0] + down, cell[1] + right) for down, right in STEPS]


def measure_distances(free: frozenset[Cell], goal: Cell) -> dict[Cell, int]:
    """Steps to the goal from every cell that reaches it, breadth first."""
    found = {goal: 0}
    edge = [goal]
    while edge:
        reached: list[Cell] = []
        for row, column in edge:
            far = found[row, column] + 1
            for down, right in STEPS:
                cell = (row + down, column + right)
                if cell in free and cell not in found:
                    found[cell] = far
                    reached.append(cell)
        edge = reached
    return found


def parse_drawing(rows: Sequence[str]) -> frozenset[Cell]:
    """The free cells of a drawing: dots are free, all else is wall."""
    return frozenset(
        (r, c) for r, row in enumerate(rows) for c, mark in enumerate(row) if mark == "."
    )


@cache
def build_double_t() -> Map:
    """The map of the original; its start is only the first of 25."""
    return Map(parse_drawing(DOUBLE_T), DOUBLE_T_GOAL, (1, 1))
