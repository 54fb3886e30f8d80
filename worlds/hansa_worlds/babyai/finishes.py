"""How a way ends: the last actions of a search, where a view allows them."""

from __future__ import annotations

from collections.abc import Collection

from hansa_worlds.babyai.grid import NOBODY
from hansa_worlds.babyai.obstacles import is_harmless_drop, keeps_way
from hansa_worlds.babyai.search import Finish
from hansa_worlds.babyai.view import FieldOfView


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

    def finish(view: FieldOfView) -> list[str] | None:
        front = view.grid.front
        return ["drop"] if front in spots and view.grid.is_empty(front) else None

    return finish


def finish_dropping_harmlessly(spots: Collection[int]) -> Finish:
    """A drop here blocks nothing, and is not on a spot that the goal needs."""

    def finish(view: FieldOfView) -> list[str] | None:
        return ["drop"] if view.grid.front not in spots and is_harmless_drop(view.grid) else None

    return finish


def finish_dropping_beside_way(cells: Collection[int], most: int) -> Finish:
    """What is dropped here leaves a way to the cells."""
    return lambda view: ["drop"] if keeps_way(view.grid, cells, most) else None


def finish_dropping_anywhere(view: FieldOfView) -> list[str] | None:
    """There is room for it."""
    return ["drop"] if view.grid.is_empty(view.grid.front) else None
