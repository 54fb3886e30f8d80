"""Rooms of BabyAI drawn by hand: one word for each cell."""

from typing import Any

from hansa_worlds.babyai import world as module
from hansa_worlds.babyai.grid import NOBODY, PAD, Start
from hansa_worlds.babyai.world import BabyAI
from hansa_worlds.base import Task

COLORS = {"r": "red", "g": "green", "b": "blue", "p": "purple", "y": "yellow", "e": "grey"}
KINDS = {"b": "ball", "x": "box", "k": "key", "C": "door", "O": "door", "L": "door"}
STATES = {"C": "closed", "O": "open", "L": "locked"}


def draw(picture: str, **given: Any) -> Start:
    """A room: `#` wall, `.` floor, `rb` red ball, `ex` grey box, `gL` green locked door, `>` you.

    Words in `given` replace what is read from the picture.
    """
    rows = [line.split() for line in picture.strip().splitlines()]
    width = len(rows[0]) + 2 * PAD
    blank = b"1" * (width * (len(rows) + 2 * PAD))
    opaque, blocked = bytearray(blank), bytearray(blank)
    things: dict[int, int] = {}
    names: list[str] = []
    at = face = 0
    for y, row in enumerate(rows):
        for x, word in enumerate(row):
            cell = (y + PAD) * width + x + PAD
            opaque[cell] = ord("1" if word == "#" or word[-1] in "CL" else "0")
            blocked[cell] = ord("0" if word in ".><v^" or word[-1] == "O" else "1")
            if word in ">v<^":
                at, face = cell, ">v<^".index(word)
            elif word not in "#.":
                things[cell] = len(names)
                names.append(word)
    return Start(
        **{
            "width": width,
            "opaque": bytes(opaque),
            "blocked": bytes(blocked),
            "things": things,
            "kinds": tuple(KINDS[name[1]] for name in names),
            "colors": tuple(COLORS[name[0]] for name in names),
            "doors": {i: STATES[name[1]] for i, name in enumerate(names) if name[1] in STATES},
            "inside": {},
            "at": at,
            "face": face,
            "held": NOBODY,
            "most": 100,
            "mission": "go to the moon",
            "goal": ("go to", ("moon", (), ())),
            **given,
        }
    )


def target(start: Start, *names: str) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """The things of a room by color and kind, as a mission holds them."""
    called = [" ".join(pair) for pair in zip(start.colors, start.kinds, strict=True)]
    fits = [thing for thing, name in enumerate(called) if name in names]
    cells = [cell for cell, thing in start.things.items() if thing in fits]
    return names[0], tuple(fits), tuple(cells)


def enter(monkeypatch: Any, start: Start, options: dict[str, object] | None = None) -> BabyAI:
    """A world whose every task is this room."""
    monkeypatch.setattr(module.levels, "load_start", lambda level, seed: start)
    world = BabyAI({"prompt": "none", **(options or {})})
    world.start(Task("drawn", "test", ("1", "0")))
    return world
