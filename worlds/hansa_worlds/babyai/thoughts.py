"""The expert's reasons, in one sentence each, from what an agent can have read."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from hansa_worlds.babyai.grid import NOBODY, Grid
from hansa_worlds.babyai.view import FieldOfView

Purpose = Literal["go", "get", "open", "put", "unlock", "unpack", "clear", "empty", "free", "look"]
"""What a plan is for: the four goals, then the help: to have a key, to open its box, to take
something out of the way or open a box there, to have a free hand, to look around."""

_LAST: dict[Purpose, str] = {
    "go": "I see the {}, so I go to it.",
    "get": "I see the {}, so I pick it up.",
    "open": "I see the {}, so I open it.",
    "put": "I am next to the {}, so I drop what I carry.",
    "unlock": "I need the {} for the locked door, so I pick it up.",
    "unpack": "I need a key, so I look into the {}.",
    "clear": "The {} is in the way, so I pick it up.",
    "empty": "The {} is in the way, so I open it.",
    "free": "I need a free hand, so I drop the {}.",
    "look": "I look around.",
}


def think(
    purpose: Purpose, things: Collection[int], action: str, is_last: bool, view: FieldOfView
) -> str:
    """Why the action is taken: what the plan is for, and whether that is in view."""
    grid = view.grid
    in_view = [seen.thing for seen in view.seen if seen.thing in things]
    thing = _find_named(action, view, things)
    if thing == NOBODY:
        thing = in_view[0] if in_view else next(iter(things), NOBODY)
    if is_last or thing == NOBODY:
        return _LAST[purpose].format(_describe_thing(grid, thing))
    if purpose == "free":
        return f"I look for a place to drop the {_describe_thing(grid, thing)}."
    if in_view:
        return f"I see the {_describe_thing(grid, thing)}, so I get closer."
    return f"I do not see the {_describe_thing(grid, thing)}, so I {_explain_exploring(action)}."


def _find_named(action: str, view: FieldOfView, things: Collection[int]) -> int:
    """The wanted thing that the action names."""
    for seen in view.seen:
        if seen.thing in things and action.endswith(seen.name):
            return seen.thing
    return NOBODY


def _describe_thing(grid: Grid, thing: int) -> str:
    return "" if thing == NOBODY else f"{grid.start.colors[thing]} {grid.start.kinds[thing]}"


def _explain_exploring(action: str) -> str:
    if action.startswith("turn"):
        return "look around"
    return "try another room" if "through" in action else "walk on"
