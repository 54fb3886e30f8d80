"""What there is to say about a world before anybody plays it."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from hansa_worlds import players, registry
from hansa_worlds.base import SPLITS
from hansa_worlds.errors import WorldError
from hansa_worlds.players import PLAYERS, EpisodeTally, PlayerScore

_RECORD = Path(__file__).with_name("scores.json")


def describe(name: str, options: Mapping[str, object]) -> dict[str, Any]:
    """The world's line in `hansa worlds`: what it is, its tasks, its players and their scores."""
    entry: dict[str, Any] = {"world": name, "about": _about(name), "from": registry.origin(name)}
    with closing(registry.make(name, options)) as world:
        return {
            **entry,
            "tasks": {split: len(world.tasks(split)) for split in SPLITS},
            "maxTurns": world.max_turns,
            "waits": world.waits,
            "players": [player for player in PLAYERS if players.has(world, player)],
            "scores": recorded(name, options),
        }


def describe_or_say_why(name: str, options: Mapping[str, object]) -> dict[str, Any]:
    """The same; where it cannot be made as it is, a sentence that says why.

    One broken package must not hide the other worlds.
    """
    kept: dict[str, Any] = {"world": name, "about": "", "from": registry.origin(name)}
    try:
        kept["about"] = _about(name)
        return describe(name, options)
    except WorldError as error:
        return {**kept, "trouble": str(error)}
    except Exception as error:  # whatever a stranger's package raises
        return {**kept, "trouble": f"cannot be loaded ({type(error).__name__}: {error})"}


def _about(name: str) -> str:
    """The first clause of what its class says of itself."""
    said = inspect.cleandoc(registry.kind(name).__doc__ or "")
    return said.partition("\n")[0].partition(";")[0].rstrip(".")


def recorded(name: str, options: Mapping[str, object]) -> dict[str, Any] | None:
    """Scores that came with this version, of builtin worlds with their default options."""
    if options or name not in registry.BUILTIN or not _RECORD.is_file():
        return None
    for entry in json.loads(_RECORD.read_text(encoding="utf-8")):
        if entry["world"] == name:
            players: dict[str, Any] = entry["players"]
            return players
    return None


def to_data(score: PlayerScore) -> dict[str, Any]:
    """A player's score as plain data."""
    data = _figures(score.whole)
    if score.groups:
        data["groups"] = {name: _figures(tally) for name, tally in score.groups.items()}
    return data


def _figures(tally: EpisodeTally) -> dict[str, Any]:
    low, high = tally.success.low, tally.success.high
    return {
        "tasks": tally.tasks,
        "episodes": tally.episodes,
        "successes": tally.successes,
        "success": round(tally.success.value, 4),
        "interval": [round(low, 4), round(high, 4)],
        "turns": round(tally.turns, 2),
    }
