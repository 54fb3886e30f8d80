"""The worlds an agent can live in: text games with one small protocol, found by name."""

from hansa_client.worlds.base import Observation, OptionError, Split, Task, World, WorldError
from hansa_client.worlds.registry import DEMO_OPTIONS, make, names

__all__ = [
    "DEMO_OPTIONS",
    "Observation",
    "OptionError",
    "Split",
    "Task",
    "World",
    "WorldError",
    "make",
    "names",
]
