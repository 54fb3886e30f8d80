"""AgentGym's environment servers as worlds: text games that are played over HTTP."""

from hansa_worlds.agentgym.dialects import DIALECTS, Dialect
from hansa_worlds.agentgym.world import AgentGym

__all__ = ["DIALECTS", "AgentGym", "Dialect"]
