"""The wordle of LMRL-Gym, with forty words or a list of yours."""

from hansa_client.worlds.wordle.world import Wordle

__all__ = ["Wordle"]
