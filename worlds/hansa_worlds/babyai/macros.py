"""The actions in words: which there are in a view, and the steps that each one takes."""

from typing import NamedTuple

from hansa_worlds.babyai import view as views
from hansa_worlds.babyai.grid import DROP, FORWARD, LEFT, NOBODY, PICKUP, RIGHT, TOGGLE, Grid
from hansa_worlds.babyai.view import FieldOfView

CHECK = "check available actions"
"""Costs a turn and answers with the list of actions, as in AgentGym."""


class Macro(NamedTuple):
    """An action on offer: walk somewhere in view, then do the last steps."""

    cell: int
    """Of the view; -1 walks nowhere."""
    is_entered: bool
    """Whether the walk ends in the cell or before it."""
    last: tuple[int, ...]

    def list_steps(self, view: FieldOfView) -> list[int]:
        """MiniGrid's actions, by the shortest walk over what is seen to be free."""
        if self.cell < 0:
            return list(self.last)
        came = views.walk(view.walkable)
        facing, inside = views.find_ends(came)
        end = (inside if self.is_entered else facing)[self.cell]
        return [*views.trace_path(came, end), *self.last]


_IN_PLACE = {action: Macro(-1, False, (action,)) for action in range(6)}


def list_offers(view: FieldOfView) -> dict[str, Macro]:
    """Everything that can be done here and changes something, in AgentGym's order."""
    grid = view.grid
    found = {"turn left": _IN_PLACE[LEFT], "turn right": _IN_PLACE[RIGHT]}
    if grid.is_free(grid.front):
        found["move forward"] = _IN_PLACE[FORWARD]
    if grid.held == NOBODY:
        for seen in view.seen:
            if seen.thing not in grid.doors and view.can_face(seen.cell):
                found[f"pickup {seen.name}"] = Macro(seen.cell, False, (PICKUP,))
    elif grid.is_empty(grid.front):
        found["drop"] = _IN_PLACE[DROP]
    for seen in view.seen:
        if seen.thing in grid.doors:
            _offer_door(found, view, seen)
    if can_toggle(grid):
        found["toggle"] = _IN_PLACE[TOGGLE]
    for seen in view.seen:
        if seen.cell != _BEFORE and view.can_face(seen.cell):
            found[f"go to {seen.name}"] = Macro(seen.cell, False, ())
    return found


_BEFORE = views.HERE + views.SIZE
"""The cell before the agent: one is there already."""


def _offer_door(found: dict[str, Macro], view: FieldOfView, seen: views.Seen) -> None:
    state = view.grid.doors[seen.thing]
    if state == "open":
        if view.can_enter(seen.cell):
            found[f"go through {seen.name}"] = Macro(seen.cell, True, ())
    elif view.can_face(seen.cell) and (state == "closed" or view.grid.has_key_of(seen.thing)):
        found[f"toggle and go through {seen.name}"] = Macro(seen.cell, False, (TOGGLE, FORWARD))


def can_toggle(grid: Grid) -> bool:
    """Whether the thing before the agent opens or closes; AgentGym knows closed doors only.

    Boxes are needed for level KeyInBox, and open doors where a mission wants one opened anew.
    """
    thing = grid.things.get(grid.front, NOBODY)
    if thing in grid.doors:
        return grid.doors[thing] != "locked" or grid.has_key_of(thing)
    return thing != NOBODY and grid.start.kinds[thing] == "box"


def strip_object(offer: str) -> str:
    """An action without the thing that it names."""
    words = offer.split()
    # "go to red ball 1", "go through red open door 1": a thing is named by 3 words, a door by 4
    return " ".join(words[: -4 if "door" in words else -3]) if words[-1].isdigit() else offer


def to_mission_words(offer: str) -> list[str]:
    """The words by which a mission asks for an action on a thing: `open red door`."""
    for said, asked in (("pickup", "pick up"), ("toggle and go through", "open")):
        offer = offer.replace(said, asked)
    for state in ("closed", "open", "locked"):
        offer = offer.replace(f" {state} door", " door")
    return [word for word in offer.split() if not word.isdigit()]


def understand(action: str, found: dict[str, Macro]) -> Macro | None:
    """The offer that an agent means: `pick up` is `pickup`, and a thing without a number is 1."""
    said = action.lower().strip(" .\"'")
    if said.startswith("pick up "):
        said = "pickup " + said.removeprefix("pick up ")
    return found.get(said) or found.get(f"{said} 1")


def explain_refusal(action: str, grid: Grid) -> str:
    """Why an action is not on offer."""
    said = action.lower()
    if said.startswith(("pickup", "pick up")) and grid.held != NOBODY:
        return "You cannot pick up anything, as you are carrying something."
    if said == "drop":
        if grid.held == NOBODY:
            return "You cannot drop anything, as you are not carrying anything."
        return "You cannot drop it here, as the cell in front of you is not empty."
    if said == "move forward":
        return "You cannot move forward, as there is a barrier in front of you."
    if "locked door" in said and "through" in said:
        return "You cannot open a locked door without a key of its color."
    return "The action is not possible here."
