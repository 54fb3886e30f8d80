"""BabyAI: the 40 levels of package minigrid, played in words by actions that walk."""

from hansa_worlds.babyai.levels import LEVELS, SOLVABLE
from hansa_worlds.babyai.world import BabyAI

__all__ = ["LEVELS", "SOLVABLE", "BabyAI"]
