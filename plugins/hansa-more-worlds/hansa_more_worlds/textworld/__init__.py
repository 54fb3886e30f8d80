"""TextWorld: games of rooms and things that are made from a seed."""

from hansa_more_worlds.textworld.world import TextWorld

__all__ = ["TextWorld"]
