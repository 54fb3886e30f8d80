"""The expert: it knows the rooms, and plans from the current state at every turn.

It keeps nothing between turns, so that planning changes nothing and works from any state. Its
thoughts, one sentence each, have only what an agent can have read.
"""

from collections.abc import Collection
from itertools import repeat
from typing import Literal, NamedTuple

from hansa_worlds.babyai import search
from hansa_worlds.babyai.goals import Both, Goal, GoTo, Open, PickUp, PutNext, Then
from hansa_worlds.babyai.grid import NOBODY, Grid
from hansa_worlds.babyai.obstacles import Way, find_cheapest_way, is_reachable
from hansa_worlds.babyai.view import FieldOfView
from hansa_worlds.base import Move

_DEEPEST = 6
"""Most obstacles before obstacles; deeper, the expert gives up."""
_CARRYING = 5
"""Estimated turns to carry something to its place."""

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


class BotPlan(NamedTuple):
    """Actions up to one thing done, which may be the mission or only help it."""

    actions: list[str]
    purpose: Purpose
    things: Collection[int] = ()
    """What it is about."""


def advise(grid: Grid, goal: Goal, view: FieldOfView) -> Move:
    """The next move."""
    plan = min(map(_Planner, repeat(grid), list_active_goals(goal)), key=_Planner.count_turns).plan
    action, is_last = plan.actions[0], len(plan.actions) == 1
    return Move(think(plan.purpose, plan.things, action, is_last, view), action)


def list_active_goals(goal: Goal) -> list[Goal]:
    """The simple goals that count now."""
    if isinstance(goal, Then):
        return list_active_goals(goal.second if goal.is_first_done else goal.first)
    if isinstance(goal, Both):
        left = [goal.first] * (not goal.is_first_done) + [goal.second] * (not goal.is_second_done)
        return [each for part in left for each in list_active_goals(part)]
    return [goal]


class _Planner:
    """A plan for one simple goal in one state; turning on the spot when nothing helps."""

    def __init__(self, grid: Grid, goal: Goal) -> None:
        self.grid, self.goal = grid, goal
        self.depth = 0
        self.spots: Collection[int] = ()
        """Cells where the goal puts something: nothing else is dropped there."""
        self.plan = self._plan_goal() or BotPlan(["turn right"], "look")

    def count_turns(self) -> int:
        """Estimated turns; 0 for a thing that is carried already, which is brought first."""
        if isinstance(self.goal, PutNext):
            if self.grid.held in self.goal.moved.things:
                return 0
            return len(self.plan.actions) + _CARRYING
        return len(self.plan.actions)

    def _plan_goal(self) -> BotPlan | None:
        goal = self.goal
        if isinstance(goal, GoTo):
            return self._go_to(goal)
        if isinstance(goal, Open):
            return self._open(goal)
        if isinstance(goal, PickUp):
            return self._obtain(goal.target.things, "get")
        if isinstance(goal, PutNext):
            return self._put_next(goal)
        return None

    # The goals

    def _go_to(self, goal: GoTo) -> BotPlan | None:
        cells = goal.target.cells
        if self.grid.held in goal.target.things and not self._find_cells(goal.target.things):
            return self._drop(())
        return self._face(cells, search.finish_facing(cells), "go", goal.target.things)

    def _open(self, goal: Open) -> BotPlan | None:
        doors = [d for d in goal.target.things if self._can_open(d)]
        if doors and (
            plan := self._face(self._find_cells(doors), search.finish_opening(doors), "open", doors)
        ):
            return plan
        locked = [d for d in goal.target.things if not self._can_open(d)]
        plans = [plan for door in locked if (plan := self._get_key(door))]
        return min(plans, key=lambda plan: len(plan.actions), default=None)

    def _put_next(self, goal: PutNext) -> BotPlan | None:
        cells = self._find_cells(goal.fixed.things)
        beside = {cell + way for cell in cells for way in self.grid.ways}
        spots = {spot for spot in beside if self.grid.is_empty(spot) or spot == self.grid.at}
        if cells and not spots:
            there = [self.grid.things[cell] for cell in sorted(beside) if cell in self.grid.things]
            return self._obtain([each for each in there if each not in self.grid.doors], "clear")
        self.spots = spots
        if self.grid.held not in goal.moved.things:
            return self._fetch(goal.moved.things, spots)
        if goal.before != self.grid.held:
            return BotPlan(["turn left"], "look")  # a drop counts only when held a step before
        return self._face(spots, search.finish_dropping(spots), "put", goal.fixed.things)

    # What they are made of

    def _find_cells(self, things: Collection[int]) -> list[int]:
        return [cell for cell, thing in self.grid.things.items() if thing in things]

    def _can_open(self, door: int) -> bool:
        return self.grid.doors[door] != "locked" or self.grid.has_key_of(door)

    def _may_open(self, door: int) -> bool:
        """Strict missions fail when another door is opened."""
        goal = self.goal
        return not (isinstance(goal, Open) and goal.strict) or door in goal.target.things

    def _face(
        self,
        cells: Collection[int],
        finish: search.Finish,
        purpose: Purpose,
        things: Collection[int],
    ) -> BotPlan | None:
        """Go to one of the cells, or first clear the way there."""
        if is_reachable(self.grid, cells, self._may_open):
            actions = search.find_actions(self.grid, finish, cells, self._may_open)
            if actions:
                return BotPlan(actions, purpose, things)
        return self._clear(cells)

    def _clear(self, cells: Collection[int]) -> BotPlan | None:
        """Get the first thing out of the way."""
        self.depth += 1
        way = find_cheapest_way(self.grid, cells, self._may_open)
        if way is None or way.obstacle is None or self.depth > _DEEPEST:
            return None
        thing = self.grid.things[way.obstacle]
        if thing in self.grid.doors:
            return self._get_key(thing)
        return self._remove(thing)

    def _remove(self, thing: int) -> BotPlan | None:
        """Take a thing out of the way; where touching it fails the mission, a box can be opened."""
        if not (isinstance(self.goal, PickUp) and self.goal.strict):
            return self._obtain((thing,), "clear")
        if self.grid.start.kinds[thing] != "box":
            return None
        return self._face(
            self._find_cells((thing,)), search.finish_unpacking([thing]), "empty", [thing]
        )

    def _obtain(self, things: Collection[int], purpose: Purpose) -> BotPlan | None:
        """Pick up one of the things; a carried key is used before it is dropped."""
        cells = self._find_cells(things)
        if self.grid.held != NOBODY:
            return self._use_key(self.grid.at, cells) or self._drop(cells)
        return self._face(cells, search.finish_taking(things), purpose, things)

    def _fetch(self, things: Collection[int], cells: Collection[int]) -> BotPlan | None:
        """Take what is to be moved, but clear its way before the hand is full."""
        best: tuple[int, int, Way] | None = None
        for start in self._find_cells(things):
            there, on = self._find_way(self.grid.at, [start]), self._find_way(start, cells)
            if there and on and (best is None or there.cost + on.cost < best[0]):
                best = (there.cost + on.cost, start, on)
        if best is None:
            return self._obtain(things, "get")
        _, start, on = best
        if on.obstacle is None:
            return self._obtain((self.grid.things[start],), "get")
        thing = self.grid.things[on.obstacle]
        if thing not in self.grid.doors:
            return self._remove(thing)
        return self._use_key(start, cells) or self._get_key(thing)

    def _find_way(self, start: int, cells: Collection[int]) -> Way | None:
        """The way from a place with an empty hand."""
        other = self.grid.copy()
        other.at, other.held = start, NOBODY
        return find_cheapest_way(other, cells, self._may_open)

    def _use_key(self, start: int, cells: Collection[int], depth: int = 0) -> BotPlan | None:
        """Open the lock that an empty hand would meet first, while its key is in hand.

        Where that lock's own key lies behind another lock, that one counts.
        """
        way = self._find_way(start, cells)
        if way is None or (cell := way.obstacle) is None:
            return None
        if (door := self.grid.things[cell]) not in self.grid.doors:
            return None
        if self.grid.has_key_of(door):
            return self._face([cell], search.finish_opening([door]), "open", [door])
        if depth >= _DEEPEST:
            return None
        return self._use_key(self.grid.at, self._find_cells(self._find_keys(door)), depth + 1)

    def _find_keys(self, door: int) -> list[int]:
        start = self.grid.start
        return [
            thing
            for thing, kind in enumerate(start.kinds)
            if kind == "key" and start.colors[thing] == start.colors[door]
        ]

    def _get_key(self, door: int) -> BotPlan | None:
        """Take the key of a lock, but first an empty hand clears the way to the lock."""
        keys = self._find_keys(door)
        boxes = [box for box, content in self.grid.inside.items() if content in keys]
        way = self._find_way(self.grid.at, self._find_cells((door,)))
        if way and way.obstacle is not None and self.depth < _DEEPEST:
            thing = self.grid.things[way.obstacle]
            if thing not in self.grid.doors and thing not in boxes:
                self.depth += 1
                return self._remove(thing)
        if self._find_cells(keys):
            return self._obtain(keys, "unlock")
        if self.grid.held in boxes:
            return self._drop(())
        return self._face(self._find_cells(boxes), search.finish_unpacking(boxes), "unpack", boxes)

    def _drop(self, cells: Collection[int]) -> BotPlan | None:
        """Drop the carried thing where it blocks nothing, or at least not the way to the cells."""
        tries = [search.finish_dropping_harmlessly(self.spots), search.finish_dropping_anywhere]
        if way := find_cheapest_way(self.grid, cells, self._may_open):
            tries.insert(1, search.finish_dropping_beside_way(cells, way.cost + 6))
        for finish in tries:
            if actions := search.find_actions(self.grid, finish, [self.grid.at], self._may_open):
                return BotPlan(actions, "free", (self.grid.held,))
        return None


def think(
    purpose: Purpose, things: Collection[int], action: str, is_last: bool, view: FieldOfView
) -> str:
    """Why the action is taken: what the plan is for, and whether that is in view."""
    grid = view.grid
    in_view = [seen for seen in view.seen if seen.thing in things]
    named = [seen for seen in in_view if action.endswith(seen.name)]
    thing = next((seen.thing for seen in [*named, *in_view]), next(iter(things), NOBODY))
    if is_last or thing == NOBODY:
        return _LAST[purpose].format(_describe_thing(grid, thing))
    if purpose == "free":
        return f"I look for a place to drop the {_describe_thing(grid, thing)}."
    if in_view:
        return f"I see the {_describe_thing(grid, thing)}, so I get closer."
    onwards = "try another room" if "through" in action else "walk on"
    step = "look around" if action.startswith("turn") else onwards
    return f"I do not see the {_describe_thing(grid, thing)}, so I {step}."


def _describe_thing(grid: Grid, thing: int) -> str:
    return "" if thing == NOBODY else f"{grid.start.colors[thing]} {grid.start.kinds[thing]}"
