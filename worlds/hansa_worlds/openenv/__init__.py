"""OpenEnv's environment servers as worlds: episodes that are played over a WebSocket."""

from hansa_worlds.openenv.world import OpenEnv

__all__ = ["OpenEnv"]
