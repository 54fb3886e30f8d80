"""Maps of the maze world: drawn, or grown from a seed.

Every training episode has a new one, so growing must be cheap: meanwhile cells are numbers, row *
width + column, in a grid with a border of walls.
"""

import random
import zlib
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from typing import NamedTuple

from hansa_worlds.base import Observation, rng

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

PARTS = {"test": range(5), "validation": range(5, 8)}
"""Of twenty parts of all mazes, those of a split; train and fresh tasks have the rest."""
_OTHERS = range(8, 20)

WALL, FREE, BORDER = 0, 1, 2


class CellView(NamedTuple):
    """What a cell shows and where one can go from it."""

    seen: Observation
    ways: dict[str, Cell]


@dataclass(eq=False)
class Map:
    """A maze that never changes; what its cells show is worked out once, when first asked for."""

    free: frozenset[Cell]
    goal: Cell
    start: Cell
    low: Cell | None = None
    """A wall that can be climbed, against the rules; distances go around it."""
    places: dict[Cell, CellView] = field(default_factory=dict)
    """What was worked out so far."""

    def view_cell(self, cell: Cell) -> CellView:
        """The place at a free cell."""
        found = self.places.get(cell)
        if found is None:
            found = self.places[cell] = self._look(cell)
        return found

    def measure_manhattan(self, cell: Cell) -> int:
        """Steps to the goal if there were no walls."""
        return abs(cell[0] - self.goal[0]) + abs(cell[1] - self.goal[1])

    @cached_property
    def distances(self) -> dict[Cell, int]:
        """Steps to the goal from every free cell."""
        return measure_distances(self.free, self.goal)

    def add_low_wall(self) -> "Map | None":
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


@cache
def build_double_t() -> Map:
    """The map of the original; its start is only the first of 25."""
    marks = {(r, c): mark for r, row in enumerate(DOUBLE_T) for c, mark in enumerate(row)}
    free = frozenset(cell for cell, mark in marks.items() if mark == ".")
    return Map(free, DOUBLE_T_GOAL, (1, 1))


@lru_cache(maxsize=512)  # tasks are played again: every round, and several samples of one
def generate_maze(seed: str, size: int, turns: int, *, low_wall: bool = False) -> Map:
    """A maze of size x size that can be solved within the turns.

    The seed is "split/number". Small mazes come up twice, so a maze belongs to a split by what it
    is and not by its seed: one that belongs to another is grown anew. With `low_wall` it
    has one that is worth climbing.
    """
    draw = rng("maze", size, seed)
    wanted = PARTS.get(seed.partition("/")[0], _OTHERS)
    width = size + 2
    while True:
        goal = draw.randint(1, size) * width + draw.randint(1, size)
        grid, grown = _grow(draw, goal, size)
        known = zlib.crc32(grid, goal)
        starts = [
            start
            for start in _pick_fair_starts(
                _measure_distances(grid, goal, width), min(turns, size + 2)
            )
            if zlib.crc32(bytes((start,)), known) % 20 in wanted
        ]
        if starts:
            start = starts[int(draw.random() * len(starts))]
            free = frozenset(divmod(cell, width) for cell in grown)
            found = Map(free, divmod(goal, width), divmod(start, width))
            if not low_wall:
                return found
            if tempting := found.add_low_wall():
                return tempting


def _grow(draw: random.Random, goal: int, size: int) -> tuple[bytearray, list[int]]:
    """Free cells one after another: always beside a free one, mostly touching only that one.

    This gives corridors with a few loops. One draw of 32 bits decides a whole try.
    """
    width = size + 2
    grid = bytearray([BORDER]) * (width * width)
    for row in range(1, size + 1):
        grid[row * width + 1 : row * width + 1 + size] = bytes(size)
    steps = [down * width + right for down, right in STEPS]
    grown = [goal]
    grid[goal] = FREE
    wanted = size * size * 3 // 5
    bits = draw.getrandbits
    for _ in range(40 * wanted):  # a bound, since a maze may have no room left to grow
        drawn = bits(32)
        # Mostly from the newest cell: long corridors; sometimes from any: branches.
        cell = grown[-1] if drawn & 1 else grown[(drawn >> 10) * len(grown) >> 22]
        cell += steps[drawn >> 1 & 3]
        if grid[cell]:
            continue
        around = (grid[cell - width], grid[cell + width], grid[cell - 1], grid[cell + 1])
        if around.count(FREE) > 1 and drawn >> 3 & 127 < 109:  # 85 of 100 loops are left out
            continue
        grid[cell] = FREE
        grown.append(cell)
        if len(grown) == wanted:
            break
    return grid, grown


def _measure_distances(grid: bytearray, goal: int, width: int) -> dict[int, int]:
    """Steps to the goal from every free cell."""
    found = {goal: 0}
    edge = [goal]
    far = 0
    while edge:
        far += 1
        reached: list[int] = []
        for cell in edge:
            for near in (cell - width, cell + width, cell - 1, cell + 1):
                if grid[near] == FREE and near not in found:
                    found[near] = far
                    reached.append(near)
        edge = reached
    return found


def _pick_fair_starts(far: dict[int, int], most: int) -> list[int]:
    """Starts near enough for the turns, and too far for random moves."""
    most = min(most, max(far.values()))
    least = min(3, most)  # a cramped maze has nothing farther
    return [cell for cell in sorted(far) if least <= far[cell] <= most]
