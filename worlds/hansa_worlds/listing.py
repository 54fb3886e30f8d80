"""A world's description and recorded scores, without playing it."""

import inspect
import json
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from hansa.api.worlds import WORLDS
from hansa_worlds import players, registry
from hansa_worlds.base import SPLITS
from hansa_worlds.errors import WorldError
from hansa_worlds.players import PLAYERS, EpisodeTally, PlayerScore

_RECORD = Path(__file__).with_name("scores.json")


def describe(name: str, options: Mapping[str, object]) -> dict[str, Any]:
    """The world's line in `hansa worlds`: what it is, its tasks, its players and their scores."""
    with closing(registry.make(name, options)) as world:
        return {
            "world": name,
            "about": _summarize(name),
            "from": WORLDS.find_origin(name),
            "tasks": {split: len(world.tasks(split)) for split in SPLITS},
            "maxTurns": world.max_turns,
            "waits": world.waits,
            "players": [player for player in PLAYERS if players.has_player(world, player)],
            "scores": find_recorded_scores(name, options),
        }


def describe_safely(name: str, options: Mapping[str, object]) -> dict[str, Any]:
    """The same; where it cannot be made as it is, a sentence that says why.

    One broken package must not hide the other worlds.
    """
    kept: dict[str, Any] = {"world": name, "about": "", "from": WORLDS.find_origin(name)}
    try:
        kept["about"] = _summarize(name)
        return describe(name, options)
    except Exception as error:  # whatever a package raises
        reason = f"cannot be loaded ({type(error).__name__}: {error})"
        return {**kept, "trouble": str(error) if isinstance(error, WorldError) else reason}


def _summarize(name: str) -> str:
    """What it is: from the table, or the first clause of its class's docstring."""
    if name in WORLDS.builtin:
        return WORLDS.builtin[name].about
    said = inspect.cleandoc(registry.load_world(name).__doc__ or "")
    return said.partition("\n")[0].partition(";")[0].rstrip(".")


def find_recorded_scores(name: str, options: Mapping[str, object]) -> dict[str, Any] | None:
    """Scores that came with this version, of builtin worlds with their default options."""
    if options or name not in WORLDS.builtin or not _RECORD.is_file():
        return None
    record = json.loads(_RECORD.read_text(encoding="utf-8"))
    scores: dict[str, dict[str, Any]] = {entry["world"]: entry["players"] for entry in record}
    return scores.get(name)


def to_data(score: PlayerScore) -> dict[str, Any]:
    """A player's score as plain data."""
    data = _tally_to_data(score.whole)
    if score.groups:
        data["groups"] = {name: _tally_to_data(tally) for name, tally in score.groups.items()}
    return data


def _tally_to_data(tally: EpisodeTally) -> dict[str, Any]:
    return {
        "tasks": tally.tasks,
        "episodes": tally.episodes,
        "successes": tally.successes,
        "success": round(tally.success.value, 4),
        "interval": [round(tally.success.low, 4), round(tally.success.high, 4)],
        "turns": round(tally.turns, 2),
    }
