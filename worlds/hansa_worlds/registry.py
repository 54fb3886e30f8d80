"""Worlds by name: builtin ones and those of packages, made by one call."""

import difflib
from collections.abc import Mapping

from hansa.api.worlds import WORLDS
from hansa_worlds.base import World
from hansa_worlds.errors import WorldError, WorldMissing

DEMO_OPTIONS: dict[str, dict[str, object]] = {
    "babyai": {
        "levels": [5, 19, 20, 22],
        "text": "short",
        "actions": "none",
        "prompt": "brief",
        "max_turns": 7,
    },
    "maze": {"map": "generated", "size": 6, "max_turns": 12, "prompt": "brief"},
    "textcraft": {
        "recipes": "small",
        "distractors": 2,
        "variants": 14,
        "max_turns": 9,
        "prompt": "brief",
    },
    "webshop": {
        "products": 60,
        "attributes": 2,
        "choices": 1,
        "text": "short",
        "prompt": "brief",
        "max_turns": 7,
    },
    "wordle": {"opening": True, "split": "pairs", "prompt": "brief"},
}
"""The small options that `builtin:tiny` was trained on; each has at least 250 test tasks."""


def names() -> list[str]:
    """Every world that `make` can make."""
    return WORLDS.list_names()


def load_world(name: str) -> type[World]:
    """The class of a world, builtin or of a package."""
    point = WORLDS.find(name)
    if point is None:
        near = difflib.get_close_matches(name, names(), n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise WorldMissing(f"world: got {name!r}, expected one of {', '.join(names())}{meant}")
    found = point.load()
    if not (isinstance(found, type) and issubclass(found, World)):
        raise WorldError(
            f"world {name!r}: got {found!r}, expected a class below hansa_worlds.World"
        )
    return found


def make(name: str, options: Mapping[str, object] | None = None) -> World:
    """A world by name, with its options checked."""
    world = load_world(name)(dict(options or {}))
    world.check_options()
    return world
