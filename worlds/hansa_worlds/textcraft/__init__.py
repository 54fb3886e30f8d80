"""The crafting world of TextCraft, with recipes of its own or Minecraft's."""

from hansa_worlds.textcraft.world import TextCraft

__all__ = ["TextCraft"]
