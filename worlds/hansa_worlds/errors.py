"""Errors of worlds; each message says what came and what is valid."""


class WorldError(Exception):
    """A world cannot be made or played; the message says what is valid."""


class WorldMissing(WorldError):
    """No installed package offers a world of that name."""


class NoPlayer(WorldError):
    """A world lacks a player: the expert, the greedy one, or a list of its actions."""


class OptionError(WorldError):
    """An option is unknown or out of bounds: 'options.size: got 99, expected 4 to 12'."""


class WorldDown(WorldError):
    """A server or program that a world depends on failed; trying later may help.

    The message leaves the silo: it names addresses and reasons, never an episode's text.
    """
