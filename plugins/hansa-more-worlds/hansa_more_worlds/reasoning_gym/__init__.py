"""reasoning-gym: questions of some ninety families, each with an answer that can be checked."""

from hansa_more_worlds.reasoning_gym.families import PLAIN, REFUSED
from hansa_more_worlds.reasoning_gym.world import ReasoningGym

__all__ = ["PLAIN", "REFUSED", "ReasoningGym"]
