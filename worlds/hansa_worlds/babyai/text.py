"""The words of an observation: AgentGym's sentences, or short ones for a small model."""

from collections.abc import Sequence

from hansa_worlds.babyai.grid import NOBODY, Grid
from hansa_worlds.babyai.view import SIZE, FieldOfView, Seen

RULES = """\
You explore rooms and want to reach the goal that you are given. Every turn I tell you what you \
see, and you answer with a thought and one action.

The actions are:
- turn left
- turn right
- move forward
- go to <obj> <id>
- pick up <obj> <id>
- drop: put what you carry into the empty cell in front of you.
- go through <door> <id>: for an open door.
- toggle and go through <door> <id>: for a closed door, or a locked one while you carry a key of \
its color.
- toggle: open or close the door, or open the box, right in front of you.

You see only what is in front of you and not behind walls or closed doors: turn and walk to find \
the rest. You can carry one thing. Answer in this form:
Thought: <your thought>

Action: <your action>"""

BRIEF = "Reach the goal."

COMPLETED = "The task is completed."
FAILED = "The task has failed."


def describe(view: FieldOfView) -> str:
    """What AgentGym says about a view."""
    grid = view.grid
    if view.seen:
        things = "".join(f"There is a {seen.name} {_describe_place(seen)} " for seen in view.seen)
        seen = f"In front of you in this room, you can see several objects: {things}"
    else:
        seen = "You cannot see any objects within sight. "
    barrier = find_barrier(grid)
    facing = f"You are facing a {barrier[0]} {barrier[1]} steps away. " if barrier else ""
    carried = "You are not carrying anything."
    if grid.held != NOBODY:
        carried = f"You are carrying a {grid.describe_thing(grid.held)}."
    return f"{seen}The room has walls around you. {facing}{carried}"


def _describe_place(seen: Seen) -> str:
    if not seen.right:
        return f"right in front of you {seen.ahead} steps away."
    side = "right" if seen.right > 0 else "left"
    return f"{seen.ahead} steps in front of you and {abs(seen.right)} steps to your {side}."


def find_barrier(grid: Grid) -> tuple[str, int] | None:
    """The first wall or box straight ahead within view, and its distance."""
    cell = grid.at
    for steps in range(1, SIZE):
        cell += grid.ways[grid.face]
        if grid.is_wall(cell):
            return "wall", steps
        thing = grid.things.get(cell, NOBODY)
        if thing != NOBODY and grid.start.kinds[thing] == "box":
            return "box", steps
        if thing in grid.doors and not grid.is_free(cell):
            return None
    return None


def format_available(actions: Sequence[str]) -> str:
    """The list that ends every observation of AgentGym."""
    quoted = ", ".join(f'"{action}"' for action in actions)
    return f"Available actions: [{quoted}]"


def describe_shortly(view: FieldOfView) -> str:
    """The same view in few words."""
    grid = view.grid
    parts = [f"{seen.name} {_describe_place_shortly(seen)}" for seen in view.seen]
    found = find_barrier(grid)
    if found and found[0] == "wall":
        parts.append(f"wall ahead {found[1]}")
    held = f" Carrying {grid.describe_thing(grid.held)}." if grid.held != NOBODY else ""
    return f"You see {', '.join(parts) or 'nothing'}.{held}"


def _describe_place_shortly(seen: Seen) -> str:
    ways = [f"ahead {seen.ahead}"] if seen.ahead else []
    if seen.right:
        ways.append(f"{'right' if seen.right > 0 else 'left'} {abs(seen.right)}")
    return " ".join(ways)
