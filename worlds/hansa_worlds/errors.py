"""What can be wrong with a world, in sentences that say what fits."""


class WorldError(Exception):
    """A world cannot be made or played as asked; the message says what fits."""


class WorldMissing(WorldError):
    """No installed package offers a world of that name."""


class NoPlayer(WorldError):
    """A world lacks a player that was asked for: an expert, a greedy one, or a list of moves."""


class OptionError(WorldError):
    """An option is unknown or out of bounds: 'options.size: got 99, expected 4 to 12'."""


class WorldDown(WorldError):
    """Something outside that a world plays on does not answer as it should; trying later may help.

    Its message is shown to everybody: it names addresses and reasons, never an episode's text.
    """
