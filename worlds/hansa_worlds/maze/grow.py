"""Mazes generated from a seed: a new one for every training episode, so they must be cheap.

While a maze grows its cells are numbers, row * width + column, in a grid with a border of walls.
"""

from __future__ import annotations

import random
import zlib
from functools import lru_cache

from hansa_worlds.base import rng
from hansa_worlds.maze.maps import STEPS, Map

PARTS = {"test": range(5), "validation": range(5, 8)}
"""Of twenty parts of all mazes, those of a split; train and fresh tasks have the rest."""
_OTHERS = range(8, 20)

WALL, FREE, BORDER = 0, 1, 2


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
