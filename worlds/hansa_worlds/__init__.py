"""The worlds an agent can live in: text games with one small protocol, found by name."""

from hansa_worlds.base import Move, Observation, Prompt, Split, Task, TaskList, World
from hansa_worlds.errors import NoPlayer, OptionError, WorldDown, WorldError
from hansa_worlds.options import Options
from hansa_worlds.registry import DEMO_OPTIONS, make, names

__all__ = [
    "DEMO_OPTIONS",
    "Move",
    "NoPlayer",
    "Observation",
    "OptionError",
    "Options",
    "Prompt",
    "Split",
    "Task",
    "TaskList",
    "World",
    "WorldDown",
    "WorldError",
    "make",
    "names",
]
