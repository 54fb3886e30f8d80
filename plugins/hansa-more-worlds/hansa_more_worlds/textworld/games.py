"""Making and opening TextWorld's games: one seed, one game, equal on every machine.

A game is made, compiled and read back from a folder that is gone a moment later; what stays is its
bytes. TextWorld's fourth kind, cooking, is not here: its games differ from process to process.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hansa_more_worlds.packages import load
from hansa_worlds.base import Split

NAME = "textworld"
MODULE = "textworld"

LEVELS = {"coin-collector": 300, "simple": 1, "treasure-hunter": 30}
"""The kinds of games, and how many levels each has."""
GOALS = ("detailed", "brief", "none")
MOST_ROOMS = 100
"""Rooms that a game of TextWorld can have."""
_CHALLENGES = {
    "coin-collector": "tw-coin_collector",
    "simple": "tw-simple",
    "treasure-hunter": "tw-treasure_hunter",
}


@dataclass(frozen=True)
class Kind:
    """What all games of a world have in common."""

    game: str
    """One of LEVELS."""
    level: int
    """How hard it is, from 1."""
    goal: str
    """How much is said of the goal: every step of the way, the goal itself, or nothing."""

    @property
    def rooms(self) -> int:
        """Rooms of a coin collector's game: once, twice or three times the way."""
        return ((self.level - 1) // 100 + 1) * ((self.level - 1) % 100 + 1)


@dataclass(frozen=True)
class Compiled:
    """A game as its two files: for the interpreter, and what TextWorld knows of it."""

    story: bytes
    knowledge: bytes
    walkthrough: tuple[str, ...]
    """Commands that win it."""


@lru_cache(maxsize=64)
def compiled(kind: Kind, split: Split, seed: int) -> Compiled:
    """The game of a seed; a second or so, and nothing for one that was just played."""
    library, challenges = load(NAME, MODULE), load(NAME, f"{MODULE}.challenges")
    options = library.GameOptions()
    options.seeds = seed
    options.grammar.only_last_action = kind.goal != "detailed"
    _, make, _ = challenges.CHALLENGES[_CHALLENGES[kind.game]]
    with TemporaryDirectory(prefix="hansa-textworld-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that it had to make longer
        game = make(_settings(kind, split), options)
        options.path = str(Path(folder) / "game.z8")
        story = Path(load(NAME, f"{MODULE}.generator").compile_game(game, options))
        return Compiled(
            story.read_bytes(),
            story.with_suffix(".json").read_bytes(),
            tuple(game.metadata["walkthrough"]),
        )


def _settings(kind: Kind, split: Split) -> Mapping[str, object]:
    if kind.game == "simple":
        # "simple" has things of its own for tests
        return {"rewards": "sparse", "goal": kind.goal, "test": split == "test"}
    return {"level": kind.level}


def opened(game: Compiled, **wanted: bool) -> tuple[Any, Any]:
    """A running game and its first state; the files are gone once the interpreter has read them."""
    library = load(NAME, MODULE)
    with TemporaryDirectory(prefix="hansa-textworld-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of games that Jericho does not know by heart
        story = Path(folder) / "game.z8"
        story.write_bytes(game.story)
        story.with_suffix(".json").write_bytes(game.knowledge)
        env = library.start(str(story), library.EnvInfos(**wanted))
        env.seed(0)  # where an interpreter draws at all
        return env, env.reset()
