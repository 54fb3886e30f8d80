"""The state of a room: cells, things, doors and the agent, with MiniGrid's six actions.

MiniGrid makes the room; playing it here takes microseconds where MiniGrid draws an image at
every step. A test plays both side by side.
"""

import copy
from dataclasses import dataclass, field
from typing import Any

PAD = 7
"""Wall cells around the grid, so that no view and no slice of one leaves it."""

LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE = range(6)
"""MiniGrid's numbers of its actions."""

NOBODY = -1
"""What is held by an empty hand, and what is in an empty box."""

_YES, _NO = ord("1"), ord("0")


@dataclass(frozen=True)
class Start:
    """A room at the start of an episode: never changed, shared by all episodes that begin so.

    A cell is a number, row by row; a thing is a number, its place in `kinds`.
    """

    width: int
    """Cells of a row, padding included."""
    opaque: bytes
    """"1" where one cannot look through."""
    blocked: bytes
    """"1" where one cannot walk."""
    things: dict[int, int] = field(hash=False)
    """Which thing lies in a cell; doors too."""
    kinds: tuple[str, ...]
    """door, key, ball or box."""
    colors: tuple[str, ...]
    doors: dict[int, str] = field(hash=False)
    """open, closed or locked."""
    inside: dict[int, int] = field(hash=False)
    """What is in a box."""
    at: int
    face: int
    """0 right, 1 down, 2 left, 3 up."""
    held: int
    most: int
    """Steps (not turns) that MiniGrid allows."""
    mission: str
    goal: Any
    """The mission as nested tuples; goals.build reads it."""


class Grid:
    """A room being played."""

    def __init__(self, start: Start) -> None:
        self.start = start
        self.opaque = bytearray(start.opaque)
        self.blocked = bytearray(start.blocked)
        self.filled = bytearray(b"0" * len(start.opaque))
        self.things = dict(start.things)
        for cell in self.things:
            self.filled[cell] = _YES
        self.doors = dict(start.doors)
        self.inside = start.inside
        self.at = start.at
        self.face = start.face
        self.held = start.held
        self.steps = 0
        self.ways = (1, start.width, -1, -start.width)

    def copy(self) -> "Grid":
        """The same room, to try things in."""
        other = copy.copy(self)
        other.opaque, other.blocked, other.filled = self.opaque[:], self.blocked[:], self.filled[:]
        other.things, other.doors = self.things.copy(), self.doors.copy()
        return other

    @property
    def front(self) -> int:
        """The cell before the agent."""
        return self.at + self.ways[self.face]

    def is_free(self, cell: int) -> bool:
        """Whether one can walk there."""
        return self.blocked[cell] == _NO

    def is_empty(self, cell: int) -> bool:
        """Whether something can be put there; an open door is free but not empty."""
        return self.blocked[cell] == _NO and cell not in self.things

    def is_wall(self, cell: int) -> bool:
        """Whether nothing but wall is there."""
        return self.blocked[cell] == _YES and cell not in self.things

    def describe_thing(self, thing: int) -> str:
        """What the thing is called: a door by its state too."""
        start = self.start
        if thing in self.doors:
            return f"{start.colors[thing]} {self.doors[thing]} door"
        return f"{start.colors[thing]} {start.kinds[thing]}"

    def act(self, action: int) -> None:
        """One of MiniGrid's actions; what cannot be done changes nothing but the step count."""
        self.steps += 1
        if action == FORWARD:
            if self.is_free(self.front):
                self.at = self.front
        elif action == LEFT:
            self.face = (self.face + 3) % 4
        elif action == RIGHT:
            self.face = (self.face + 1) % 4
        elif action == PICKUP:
            self._pick_up()
        elif action == DROP:
            self._drop()
        else:
            self._toggle()

    def _pick_up(self) -> None:
        thing = self.things.get(self.front, NOBODY)
        if thing == NOBODY or thing in self.doors or self.held != NOBODY:
            return
        self.held = thing
        self._take_away(self.front)

    def _take_away(self, cell: int) -> None:
        del self.things[cell]
        self.blocked[cell] = self.filled[cell] = _NO

    def _drop(self) -> None:
        if self.held == NOBODY or not self.is_empty(self.front):
            return
        self.things[self.front] = self.held
        self.blocked[self.front] = self.filled[self.front] = _YES
        self.held = NOBODY

    def _toggle(self) -> None:
        cell = self.front
        thing = self.things.get(cell, NOBODY)
        if thing in self.doors:
            if self.doors[thing] != "locked" or self.has_key_of(thing):
                self.set_door(cell, thing, "closed" if self.doors[thing] == "open" else "open")
        elif thing != NOBODY and self.start.kinds[thing] == "box":
            self._open_box(cell, thing)

    def has_key_of(self, door: int) -> bool:
        """Whether the agent carries the key of this door."""
        if self.held == NOBODY:
            return False
        start = self.start
        return start.kinds[self.held] == "key" and start.colors[self.held] == start.colors[door]

    def set_door(self, cell: int, door: int, state: str) -> None:
        """Open or close the door of a cell."""
        self.doors[door] = state
        self.opaque[cell] = self.blocked[cell] = _NO if state == "open" else _YES

    def _open_box(self, cell: int, box: int) -> None:
        """What was in the box takes its place; an empty box is gone."""
        content = self.inside.get(box, NOBODY)
        if content != NOBODY:
            self.things[cell] = content
        else:
            self._take_away(cell)
