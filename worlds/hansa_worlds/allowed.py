"""Which classes a world's options may name: those that the machine's or the image's owner allows.

Options are data of a manifest, which somebody else may have written: a name in them is imported
only where HANSA_WORLD_MODULES or the entry point of an installed package has it. What an allowed
class does with its arguments is its own affair.
"""

from __future__ import annotations

import os
from importlib.metadata import entry_points

from hansa.api.assignment import ENV_WORLD_MODULES

ENV_MODULES = ENV_WORLD_MODULES
"""Names that are allowed, separated by commas: `module`, with all below it, or `module:Class`."""
GROUP = "hansa.environments"
"""Entry-point group of packages that offer such names: `desk = "my_package.envs:TicketDesk"`."""


def is_allowed(module: str, attribute: str) -> bool:
    """Whether a module may be imported for the sake of that attribute."""
    given = os.environ.get(ENV_MODULES, "").split(",")
    offered = [point.value for point in entry_points(group=GROUP)]
    names = {name.replace(" ", "") for name in (*given, *offered)} - {""}
    below = any(module == name or module.startswith(f"{name}.") for name in names)
    return below or f"{module}:{attribute}" in names


def allowed_words() -> str:
    """What an option may name, for a refusal."""
    now = os.environ.get(ENV_MODULES, "").strip() or "nothing"
    return (
        f"a class or id of a module in {ENV_MODULES} (now {now}), or one that a package offers "
        f"by entry point {GROUP}"
    )
