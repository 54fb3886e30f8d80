"""The maze of LMRL-Gym: the fixed double-T map, and as many generated mazes as you like."""

from hansa_worlds.maze.world import Maze

__all__ = ["Maze"]
