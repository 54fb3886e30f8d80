"""Which worlds there are: the builtin table, then whatever packages offer under `hansa.worlds`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points

from hansa_client.worlds.base import World, WorldError

GROUP = "hansa.worlds"
"""Entry-point group: `mine = "my_package.my_world:MyWorld"`."""

BUILTIN = {
    "babyai": "hansa_client.worlds.babyai:BabyAI",
    "maze": "hansa_client.worlds.maze:Maze",
    "textcraft": "hansa_client.worlds.textcraft:TextCraft",
    "webshop": "hansa_client.worlds.webshop:WebShop",
    "wordle": "hansa_client.worlds.wordle:Wordle",
}

DEMO_OPTIONS: dict[str, dict[str, object]] = {
    "babyai": {"max_turns": 8, "actions": "short"},
    "maze": {"map": "generated", "size": 6, "max_turns": 12},
    "textcraft": {"distractors": 2, "max_turns": 9},
    "webshop": {"max_turns": 7},
    "wordle": {"opening": True, "split": "pairs"},
}
"""The small options that `builtin:tiny` was trained on; each has at least 250 test tasks."""


def names() -> list[str]:
    """Every world that `make` can make."""
    return sorted({*BUILTIN, *(point.name for point in entry_points(group=GROUP))})


def make(name: str, options: Mapping[str, object] | None = None) -> World:
    """A world by name; builtin names win, so that no package can replace one unseen."""
    if name in BUILTIN:
        module, _, attribute = BUILTIN[name].partition(":")
        kind = getattr(import_module(module), attribute)
    else:
        found = [point for point in entry_points(group=GROUP) if point.name == name]
        if not found:
            raise WorldError(f"world: got {name!r}, expected one of {', '.join(names())}")
        kind = found[0].load()
    world = kind(dict(options or {}))
    if not isinstance(world, World):
        raise WorldError(f"world {name!r}: {kind!r} is no hansa_client.worlds.World")
    return world
