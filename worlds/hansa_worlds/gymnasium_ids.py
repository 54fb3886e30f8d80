"""Hansa's worlds under Gymnasium's ids, registered by the import of this module.

    import gymnasium
    import hansa_worlds.gymnasium_ids

    env = gymnasium.make("hansa/Maze-v0", options={"map": "generated", "size": 6})

Without an import line: `gymnasium.make("hansa_worlds.gymnasium_ids:hansa/Maze-v0")`.
"""

from __future__ import annotations

import gymnasium

from hansa_worlds.registry import BUILTIN

ANY = "hansa/World-v0"
"""Any world by its name, those of other packages too: make(ANY, world="tickets")."""


def ids() -> dict[str, str]:
    """Each builtin world's id, by its name; it is the name of its class."""
    return {name: f"hansa/{place.partition(':')[2]}-v0" for name, place in BUILTIN.items()}


def register() -> None:
    """Register what is not registered yet; nothing of a world is imported for it."""
    made = {ANY: {}, **{id_: {"world": name} for name, id_ in ids().items()}}
    for id_, kwargs in made.items():
        if id_ not in gymnasium.registry:
            gymnasium.register(
                id=id_, entry_point="hansa_worlds.gymnasium_env:WorldEnv", kwargs=kwargs
            )


register()
