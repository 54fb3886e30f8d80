"""ScienceWorld: experiments of a science lesson, in a simulator that runs in Java."""

from hansa_worlds.scienceworld.lessons import SIMPLIFICATIONS, VARIATIONS, variations
from hansa_worlds.scienceworld.world import ScienceWorld

__all__ = ["SIMPLIFICATIONS", "VARIATIONS", "ScienceWorld", "variations"]
