"""Searching a short way in turns: from a place through the macros that one would see there.

Only places, ways of facing and opened doors change along a way; what lies around stays. A finish
says where the way may end, and by which last actions.
"""

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator

from hansa_worlds.babyai import view as views
from hansa_worlds.babyai.grid import NOBODY, Grid
from hansa_worlds.babyai.obstacles import is_harmless_drop, keeps_way
from hansa_worlds.babyai.view import FieldOfView

Finish = Callable[[FieldOfView], list[str] | None]
"""The actions that end the way at a place, or None where it must continue."""

STRIDE = 6.0
"""Cells that a turn gets one nearer: a smaller guess is quicker and finds longer ways."""
MOST = 4_000
"""Places looked at before a search gives up."""

_Node = tuple[int, int, frozenset[int]]
"""Cell, way of facing, and the doors opened so far."""


def measure_distances(grid: Grid, cells: Iterable[int]) -> dict[int, int]:
    """Steps from everywhere to the nearest of some cells, with only walls in the way."""
    edge = sorted(cells)
    found = dict.fromkeys(edge, 0)
    for cell in edge:
        for way in grid.ways:
            if cell + way not in found and not grid.is_wall(cell + way):
                found[cell + way] = found[cell] + 1
                edge.append(cell + way)
    return found


def find_actions(
    grid: Grid, finish: Finish, cells: Iterable[int], may_open: Callable[[int], bool]
) -> list[str] | None:
    """The actions of a short way to where `finish` holds; `cells` are where to look for it."""
    far = measure_distances(grid, cells)
    rooms = {frozenset[int](): grid.copy()}
    first: _Node = (grid.at, grid.face, frozenset())
    came: dict[_Node, tuple[_Node, str] | None] = {first: None}
    heap = [(0.0, 0, 0, first)]
    for _ in range(MOST):
        if not heap:
            return None
        _, _, turns, node = heapq.heappop(heap)
        room = rooms[node[2]]
        room.at, room.face = node[0], node[1]
        view = FieldOfView(room)
        if (last := finish(view)) is not None:
            return [*views.trace_path(came, node), *last]
        for action, there in _follow(view, rooms, node, may_open):
            if there not in came:
                came[there] = (node, action)
                estimate = turns + 1 + far.get(there[0], 999) / STRIDE
                heapq.heappush(heap, (estimate, len(came), turns + 1, there))
    return None


def _follow(
    view: FieldOfView,
    rooms: dict[frozenset[int], Grid],
    node: _Node,
    may_open: Callable[[int], bool],
) -> Iterator[tuple[str, _Node]]:
    """The places that one turn leads to."""
    room, (at, face, opened) = view.grid, node
    yield "turn right", (at, (face + 1) % 4, opened)
    yield "turn left", (at, (face + 3) % 4, opened)
    if room.is_free(room.front):
        yield "move forward", (room.front, face, opened)
    if not view.seen:
        return
    came = views.walk(view.walkable)
    facing, inside = views.find_ends(came)
    for seen in view.seen:
        state = room.doors.get(seen.thing)
        if state == "open" and seen.cell in inside:
            yield f"go through {seen.name}", (*views.locate_node(room, inside[seen.cell]), opened)
        if seen.cell not in facing:
            continue
        cell, turned = views.locate_node(room, facing[seen.cell])
        yield f"go to {seen.name}", (cell, turned, opened)
        if (state == "closed" or (state and state != "open" and room.has_key_of(seen.thing))) and (
            may_open(seen.thing)
        ):
            more = opened | {seen.thing}
            if more not in rooms:
                rooms[more] = room.copy()
                rooms[more].set_door(cell + room.ways[turned], seen.thing, "open")
            yield f"toggle and go through {seen.name}", (cell + room.ways[turned], turned, more)


def finish_facing(cells: Collection[int]) -> Finish:
    """One of the cells is faced."""
    return lambda view: [] if view.grid.front in cells else None


def finish_taking(things: Collection[int]) -> Finish:
    """One of the things is in view and can be walked to."""

    def finish(view: FieldOfView) -> list[str] | None:
        for seen in view.seen:
            if seen.thing in things and view.can_face(seen.cell):
                return [f"pickup {seen.name}"]
        return None

    return finish


def finish_opening(doors: Collection[int]) -> Finish:
    """One of the doors can be opened; an open one is closed first, since opening is what counts."""

    def finish(view: FieldOfView) -> list[str] | None:
        grid = view.grid
        front = grid.things.get(grid.front, NOBODY)
        if front in doors:
            return ["toggle", "toggle"] if grid.doors[front] == "open" else ["toggle"]
        for seen in view.seen:
            is_wanted = seen.thing in doors and grid.doors[seen.thing] != "open"
            if is_wanted and view.can_face(seen.cell):
                return [f"toggle and go through {seen.name}"]
        return None

    return finish


def finish_unpacking(boxes: Collection[int]) -> Finish:
    """One of the boxes is faced."""
    return lambda view: (
        ["toggle"] if view.grid.things.get(view.grid.front, NOBODY) in boxes else None
    )


def finish_dropping(spots: Collection[int]) -> Finish:
    """One of the cells is faced and empty."""
    return lambda view: finish_dropping_anywhere(view) if view.grid.front in spots else None


def finish_dropping_harmlessly(spots: Collection[int]) -> Finish:
    """A drop here blocks nothing, and is not on a spot that the goal needs."""
    return lambda view: (
        ["drop"] if view.grid.front not in spots and is_harmless_drop(view.grid) else None
    )


def finish_dropping_beside_way(cells: Collection[int], most: int) -> Finish:
    """What is dropped here leaves a way to the cells."""
    return lambda view: ["drop"] if keeps_way(view.grid, cells, most) else None


def finish_dropping_anywhere(view: FieldOfView) -> list[str] | None:
    """There is room for it."""
    return ["drop"] if view.grid.is_empty(view.grid.front) else None
