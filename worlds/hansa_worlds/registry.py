"""Which worlds there are: the builtin table, then whatever packages offer under `hansa.worlds`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points

from hansa_worlds.base import World
from hansa_worlds.errors import WorldError, WorldMissing

GROUP = "hansa.worlds"
"""Entry-point group: `mine = "my_package.my_world:MyWorld"`."""

BUILTIN = {
    "agentgym": "hansa_worlds.agentgym:AgentGym",
    "babyai": "hansa_worlds.babyai:BabyAI",
    "gymnasium": "hansa_worlds.gymnasium:Gymnasium",
    "maze": "hansa_worlds.maze:Maze",
    "mixed": "hansa_worlds.mixed:Mixed",
    "openenv": "hansa_worlds.openenv:OpenEnv",
    "proxy": "hansa_client.proxy.world:Proxy",
    "textcraft": "hansa_worlds.textcraft:TextCraft",
    "webshop": "hansa_worlds.webshop:WebShop",
    "wordle": "hansa_worlds.wordle:Wordle",
}

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
    return sorted({*BUILTIN, *(point.name for point in entry_points(group=GROUP))})


def kind(name: str) -> type[World]:
    """The class of a world; builtin names win, so that no package can replace one unseen."""
    if name in BUILTIN:
        module, _, attribute = BUILTIN[name].partition(":")
        found = getattr(import_module(module), attribute)
    else:
        points = [point for point in entry_points(group=GROUP) if point.name == name]
        if not points:
            raise WorldMissing(f"world: got {name!r}, expected one of {', '.join(names())}")
        found = points[0].load()
    if not (isinstance(found, type) and issubclass(found, World)):
        raise WorldError(f"world {name!r}: {found!r} is no hansa_worlds.World")
    return found


def origin(name: str) -> str:
    """Where a world comes from: builtin, or the package that offers it."""
    if name in BUILTIN:
        return "builtin"
    for point in entry_points(group=GROUP):
        if point.name == name and point.dist:
            return point.dist.name
    return "package"


def make(name: str, options: Mapping[str, object] | None = None) -> World:
    """A world by name, with its options checked."""
    world = kind(name)(dict(options or {}))
    world.check_options()
    return world
