"""What the agent sees from its place, and where it can walk within that.

MiniGrid's view is 7 x 7 cells with the agent in the middle of its near edge. A cell of the view
is a number, 7 * ahead + 3 - right, and sets of cells are the bits of one integer: visibility is
seven table lookups, reachability a few shifts.
"""

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple, TypeVar

from hansa_worlds.babyai.grid import FORWARD, LEFT, RIGHT, Grid

SIZE = 7
HALF = SIZE // 2
ALL = (1 << SIZE * SIZE) - 1
HERE = HALF
"""The agent's own cell."""

_LEFTMOST = sum(1 << row * SIZE + SIZE - 1 for row in range(SIZE))
_RIGHTMOST = sum(1 << row * SIZE for row in range(SIZE))


class Seen(NamedTuple):
    """A thing in view."""

    name: str
    """With its number among things of that name, the nearest first: `red ball 1`."""
    thing: int
    cell: int
    """In the view."""
    ahead: int
    right: int
    """Negative: to the left."""


class FieldOfView:
    """One look; the grid must not change while it is used."""

    __slots__ = ("grid", "reach", "seen", "walkable")

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        things, self.walkable = _look(grid)
        self.seen = _list_things(grid, things)
        self.reach = flood(self.walkable)

    def can_face(self, cell: int) -> bool:
        """Whether one can walk up to a cell of the view."""
        return bool(_BESIDE[cell] & self.reach)

    def can_enter(self, cell: int) -> bool:
        """Whether one can walk into a cell of the view."""
        return bool(self.reach >> cell & 1)


def _look(grid: Grid) -> tuple[int, int]:
    """The cells of the things that one sees, and the cells seen to be free."""
    opaque, blocked, filled = grid.opaque, grid.blocked, grid.filled
    ahead, right = grid.ways[grid.face], grid.ways[(grid.face + 1) % 4]
    first = grid.at - HALF * right
    row, things, free = 1 << HALF, 0, 0
    for shift in range(0, SIZE * SIZE, SIZE):
        last = first + SIZE * right
        row, above = _spread(row, int(opaque[first:last:right], 2))
        things |= (row & int(filled[first:last:right], 2)) << shift
        free |= (row & ~int(blocked[first:last:right], 2)) << shift
        if not above:
            break
        row = above
        first += ahead
    return things & ~(1 << HERE), free | 1 << HERE


@cache
def _spread(row: int, opaque: int) -> tuple[int, int]:
    """A row as seen in the end, and what it shows of the next one; MiniGrid's process_vis."""
    seen, above = row, 0
    for bits in (range(SIZE - 1, 0, -1), range(SIZE - 1)):
        step = -1 if bits.step < 0 else 1
        for bit in bits:
            if seen >> bit & 1 and not opaque >> bit & 1:
                seen |= 1 << bit + step
                above |= 1 << bit | 1 << bit + step
    return seen, above


def _list_things(grid: Grid, cells: int) -> list[Seen]:
    """The things in view: near ones first, then far rows first, then from the left."""
    ahead, right = grid.ways[grid.face], grid.ways[(grid.face + 1) % 4]
    found = []
    while cells:
        cell = cells.bit_length() - 1
        cells ^= 1 << cell
        steps, aside = cell // SIZE, HALF - cell % SIZE
        thing = grid.things[grid.at + ahead * steps + right * aside]
        found.append((steps + abs(aside), -steps, aside, cell, thing))
    found.sort()
    counts: dict[str, int] = {}
    seen = []
    for _, behind, aside, cell, thing in found:
        name = grid.describe_thing(thing)
        counts[name] = counts.get(name, 0) + 1
        seen.append(Seen(f"{name} {counts[name]}", thing, cell, -behind, aside))
    return seen


def flood(walkable: int) -> int:
    """The cells that one can walk to from the agent's own."""
    reach, before = 1 << HERE, 0
    while reach != before:
        before = reach
        reach |= reach << SIZE | reach >> SIZE
        reach |= (before & ~_LEFTMOST) << 1 | (before & ~_RIGHTMOST) >> 1
        reach &= walkable
    return reach


def _mask_neighbours(cell: int) -> int:
    """The cells next to one."""
    bit = 1 << cell
    around = bit << SIZE | bit >> SIZE | (bit & ~_LEFTMOST) << 1 | (bit & ~_RIGHTMOST) >> 1
    return around & ALL


_BESIDE = tuple(_mask_neighbours(cell) for cell in range(SIZE * SIZE))

_STEPS = (SIZE, -1, -SIZE, 1)
"""From a cell of the view to the next: ahead, right, back, left."""


def _face(node: int) -> int:
    """The cell that is faced from a place and a way of facing; -1 is out of view."""
    cell, turn = divmod(node, 4)
    there = cell + _STEPS[turn]
    return there if there >= 0 and _BESIDE[cell] >> there & 1 else -1


_FACED = tuple(map(_face, range(SIZE * SIZE * 4)))


def _list_next(node: int) -> tuple[tuple[int, int, int], ...]:
    """What can follow a place and a way of facing: action, node, bit that must be walkable."""
    cell, turn = divmod(node, 4)
    turns = (
        (LEFT, cell * 4 + (turn + 3) % 4, 1 << cell),
        (RIGHT, cell * 4 + (turn + 1) % 4, 1 << cell),
    )
    there = _FACED[node]
    return ((FORWARD, there * 4 + turn, 1 << there), *turns) if there >= 0 else turns


_NEXT = tuple(map(_list_next, range(SIZE * SIZE * 4)))

Walk = dict[int, tuple[int, int] | None]
"""Where each node was reached from, and by which action; in the order of distance."""
_Node = TypeVar("_Node")
_Step = TypeVar("_Step")


def walk(walkable: int) -> Walk:
    """The shortest walks from the agent's place to everywhere in view."""
    came: Walk = {HERE * 4: None}
    queue = [HERE * 4]
    for node in queue:
        for action, there, bit in _NEXT[node]:
            if walkable & bit and there not in came:
                came[there] = (node, action)
                queue.append(there)
    return came


def find_ends(came: Walk) -> tuple[dict[int, int], dict[int, int]]:
    """The nearest nodes that face each cell, and those inside each cell."""
    facing: dict[int, int] = {}
    inside: dict[int, int] = {}
    for node in came:
        inside.setdefault(node // 4, node)
        facing.setdefault(_FACED[node], node)
    return facing, inside


def trace_path(came: Mapping[_Node, tuple[_Node, _Step] | None], node: _Node) -> list[_Step]:
    """The actions of the way to a node, by where each was reached from; None at its beginning."""
    actions: list[_Step] = []
    while (before := came[node]) is not None:
        node, action = before
        actions.append(action)
    return actions[::-1]


def locate_node(grid: Grid, node: int) -> tuple[int, int]:
    """Where in the room a node is: cell and way of facing."""
    cell, turn = divmod(node, 4)
    steps, aside = cell // SIZE, HALF - cell % SIZE
    ahead, right = grid.ways[grid.face], grid.ways[(grid.face + 1) % 4]
    return grid.at + ahead * steps + right * aside, (grid.face + turn) % 4
