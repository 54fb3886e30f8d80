"""Obstacles: which cells can be reached, and what must be moved to reach the others."""

import heapq
from collections.abc import Callable, Collection
from typing import NamedTuple

from hansa_worlds.babyai.grid import Grid

_THING, _LOCK = 25, 40
"""Estimated steps to clear a thing out of the way, or to get the key of a lock."""


def _estimate_cost(grid: Grid, cell: int, may_open: Callable[[int], bool]) -> int | None:
    """Steps to enter a cell; None is never."""
    if grid.is_free(cell):
        return 1
    thing = grid.things.get(cell)
    if thing is None:
        return None
    if thing not in grid.doors:
        return _THING
    if not may_open(thing):
        return None
    return 2 if grid.doors[thing] != "locked" or grid.has_key_of(thing) else _LOCK


def is_reachable(grid: Grid, cells: Collection[int], may_open: Callable[[int], bool]) -> bool:
    """Whether one of the cells can be faced with nothing moved or unlocked."""
    wanted = {cell + way for cell in cells for way in grid.ways}
    return bool(wanted & flood(grid, may_open))


def flood(grid: Grid, may_open: Callable[[int], bool]) -> set[int]:
    """The cells that one can walk to, through doors that open."""
    edge, known = [grid.at], {grid.at}
    for cell in edge:
        for way in grid.ways:
            there = cell + way
            if there not in known and (_estimate_cost(grid, there, may_open) or 99) <= 2:
                known.add(there)
                edge.append(there)
    return known


class Way(NamedTuple):
    """The cheapest way to face a cell."""

    cost: int
    obstacle: int | None
    """The cell of the first thing on it to be moved or unlocked."""


def find_cheapest_way(
    grid: Grid, cells: Collection[int], may_open: Callable[[int], bool]
) -> Way | None:
    """The way with the fewest steps, where moving and unlocking things takes many."""
    wanted = {cell + way for cell in cells for way in grid.ways}
    heap = [(0, grid.at, -1)]
    known = set()
    while heap:
        cost, cell, obstacle = heapq.heappop(heap)
        if cell in known:
            continue
        known.add(cell)
        if cell in wanted:
            return Way(cost, obstacle if obstacle >= 0 else None)
        for way in grid.ways:
            there = cell + way
            price = _estimate_cost(grid, there, may_open)
            if there not in known and price is not None:
                blocks = there if price > 2 and obstacle < 0 else obstacle
                heapq.heappush(heap, (cost + price, there, blocks))
    return None


def is_harmless_drop(grid: Grid) -> bool:
    """Whether putting something before the agent leaves every place and thing within reach."""
    cell = grid.front
    if not grid.is_empty(cell):
        return False
    if any(grid.things.get(cell + way) in grid.doors for way in grid.ways):
        return False
    before = flood(grid, _allow_all)
    grid.blocked[cell] = ord("1")
    after = flood(grid, _allow_all)
    grid.blocked[cell] = ord("0")
    return len(after) == len(before) - 1 and _find_faced(grid, after) >= _find_faced(grid, before)


def keeps_way(grid: Grid, cells: Collection[int], most: int) -> bool:
    """Whether putting something before the agent leaves a way that costs no more than `most`."""
    cell = grid.front
    if not grid.is_empty(cell):
        return False
    grid.blocked[cell] = ord("1")
    way = find_cheapest_way(grid, cells, _allow_all)
    grid.blocked[cell] = ord("0")
    return way is not None and way.cost <= most


def _allow_all(_: int) -> bool:
    return True


def _find_faced(grid: Grid, cells: Collection[int]) -> set[int]:
    return {cell + way for cell in cells for way in grid.ways if cell + way in grid.things}
