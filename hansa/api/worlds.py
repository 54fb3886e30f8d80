"""The builtin worlds: all that hansa knows of a world without importing it."""

from dataclasses import dataclass

from hansa.core.entry_points import Builtin, Registry


@dataclass(frozen=True)
class BuiltinWorld(Builtin):
    """A line in the table of builtin worlds."""

    has_expert: bool = False
    """Whether it can show demonstrations."""


BUILTIN: dict[str, BuiltinWorld] = {
    "agentgym": BuiltinWorld("hansa_worlds.agentgym.world:AgentGym", "Any environment of AgentGym"),
    "babyai": BuiltinWorld("hansa_worlds.babyai.world:BabyAI", "Missions in several rooms", True),
    "gymnasium": BuiltinWorld("hansa_worlds.gymnasium:Gymnasium", "Any environment of Gymnasium"),
    "maze": BuiltinWorld("hansa_worlds.maze.world:Maze", "Walk to the goal", True),
    "mixed": BuiltinWorld("hansa_worlds.mixed:Mixed", "Several worlds in one silo", True),
    "openenv": BuiltinWorld("hansa_worlds.openenv.world:OpenEnv", "Any environment of OpenEnv"),
    "proxy": BuiltinWorld("hansa_client.proxy.world:Proxy", "An agent of your own plays"),
    "textcraft": BuiltinWorld("hansa_worlds.textcraft.world:TextCraft", "Craft by recipes", True),
    "webshop": BuiltinWorld("hansa_worlds.webshop.world:WebShop", "Find and buy a product", True),
    "wordle": BuiltinWorld("hansa_worlds.wordle.world:Wordle", "Guess a word in six tries", True),
}
"""Name to class, what it is, and whether it has an expert."""

WORLDS = Registry(group="hansa.worlds", builtin=BUILTIN, variable="HANSA_WORLD_FILES")
"""Every world of this machine; packages add theirs by entry points, local runs by files."""
