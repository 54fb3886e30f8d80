"""ScienceWorld: experiments of a science lesson, in a simulator that runs in Java."""

from hansa_more_worlds.scienceworld.lessons import SIMPLIFICATIONS, VARIATIONS, variations
from hansa_more_worlds.scienceworld.world import ScienceWorld

__all__ = ["SIMPLIFICATIONS", "VARIATIONS", "ScienceWorld", "variations"]
