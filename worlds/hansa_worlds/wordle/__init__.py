"""The wordle of LMRL-Gym, with forty words or a list of yours."""

from hansa_worlds.wordle.world import Wordle

__all__ = ["Wordle"]
