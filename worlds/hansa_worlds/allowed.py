"""Which classes a world's options may name: those that the owner of the machine or image allows.

Options come from a manifest, which may be written by another party: a name in them is imported
only where HANSA_WORLD_MODULES (`module`, with all below it, or `module:Class`, separated by commas)
or the entry point of an installed package has it. What an allowed class does is not checked.
"""

from __future__ import annotations

import os
from importlib.metadata import entry_points

from hansa.api.assignment import ENV_WORLD_MODULES

GROUP = "hansa.environments"
"""Entry-point group of packages that offer such names: `desk = "my_package.envs:TicketDesk"`."""


def is_allowed(module: str, attribute: str) -> bool:
    """Whether a module may be imported for this attribute."""
    given = os.environ.get(ENV_WORLD_MODULES, "").split(",")
    offered = [point.value for point in entry_points(group=GROUP)]
    names = {name.replace(" ", "") for name in (*given, *offered)} - {""}
    below = any(module == name or module.startswith(f"{name}.") for name in names)
    return below or f"{module}:{attribute}" in names


def describe_allowed() -> str:
    """What an option may name, for an error message."""
    now = os.environ.get(ENV_WORLD_MODULES, "").strip() or "nothing"
    return (
        f"a class or id of a module in {ENV_WORLD_MODULES} (now {now}), or one that a package "
        f"offers by entry point {GROUP}"
    )
