"""The 40 levels by number, and how package minigrid makes the room of a level and a seed."""

from __future__ import annotations

import os
from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple

from hansa_worlds.babyai.grid import Start
from hansa_worlds.errors import WorldError


class Level(NamedTuple):
    """One level: its name in the literature, and the class and arguments that make it."""

    name: str
    kind: str = ""
    """Class in minigrid.envs.babyai; "" when it is the name."""
    arguments: tuple[tuple[str, object], ...] = ()


def _define_level(name: str, kind: str = "", **arguments: object) -> Level:
    return Level(name, kind, tuple(arguments.items()))


LEVELS: dict[int, Level] = dict(
    enumerate(
        (
            _define_level("GoToRedBallGrey"),
            _define_level("GoToRedBall"),
            _define_level("GoToRedBallNoDists"),
            _define_level("GoToObjS6", "GoToObj", room_size=6),
            _define_level("GoToLocalS8N7", "GoToLocal", room_size=8, num_dists=7),
            _define_level("GoToObjMazeS7", "GoTo", num_dists=1, room_size=7),
            _define_level("GoToImpUnlock"),
            _define_level(
                "GoToSeqS5R2", "GoToSeq", room_size=5, num_rows=2, num_cols=2, num_dists=4
            ),
            _define_level("GoToRedBlueBall"),
            _define_level("GoToDoor"),
            _define_level("GoToObjDoor"),
            _define_level("Open"),
            _define_level("OpenRedDoor"),
            _define_level("OpenDoorLoc", "OpenDoor", select_by="loc"),
            _define_level(
                "OpenRedBlueDoorsDebug",
                "OpenTwoDoors",
                first_color="red",
                second_color="blue",
                strict=True,
            ),
            _define_level("OpenDoorsOrderN4Debug", "OpenDoorsOrder", debug=True, num_doors=4),
            _define_level("Pickup"),
            _define_level("UnblockPickup"),
            _define_level("PickupLoc"),
            _define_level("PickupDistDebug", "PickupDist", debug=True),
            _define_level("PickupAbove"),
            _define_level("PutNextLocalS6N4", "PutNextLocal", room_size=6, num_objs=4),
            _define_level(
                "PutNextS7N4Carrying", "PutNext", room_size=7, objs_per_room=4, start_carrying=True
            ),
            _define_level("Unlock"),
            _define_level("UnlockLocalDist", "UnlockLocal", distractors=True),
            _define_level("KeyInBox"),
            _define_level("UnlockPickupDist", "UnlockPickup", distractors=True),
            _define_level("BlockedUnlockPickup"),
            _define_level("UnlockToUnlock"),
            _define_level("ActionObjDoor"),
            _define_level("FindObjS7", "FindObjS5", room_size=7),
            _define_level("KeyCorridorS6R3", "KeyCorridor", room_size=6, num_rows=3),
            _define_level("OneRoomS20", "OneRoomS8", room_size=20),
            _define_level("MoveTwoAcrossS8N9", "MoveTwoAcross", room_size=8, objs_per_room=9),
            _define_level("SynthS5R2", "Synth", room_size=5, num_rows=2),
            _define_level("SynthLoc"),
            _define_level("SynthSeq"),
            _define_level("MiniBossLevel"),
            _define_level("BossLevel"),
            _define_level("BossLevelNoUnlock"),
        ),
        start=1,
    )
)
"""AgentGym's numbers: its task `data_idx` is level `data_idx % 40 + 1`, seed `data_idx // 40`."""

_LONG = (35, 37, 38, 39, 40)
"""Levels whose missions take the expert more than 20 turns now and then: much to do or to clear."""

SOLVABLE: tuple[int, ...] = tuple(level for level in LEVELS if level not in _LONG)
"""Levels that the expert solves within 20 turns in at least 98 % of the seeds."""

_STARTS = 2_000
"""Rooms kept: an evaluation split is played again every round, and making a room takes ms."""


def require_minigrid() -> None:
    """Check that package minigrid is installed, without its greeting on stdout."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    try:
        import_module("minigrid.envs.babyai")
    except ImportError as error:
        raise WorldError(
            f"world 'babyai' needs package minigrid ({error}): pip install 'hansa[client]'"
        ) from None


@lru_cache(maxsize=_STARTS)
def load_start(level: int, seed: int) -> Start:
    """The room of a level and a seed, equal on every machine."""
    from hansa_worlds.babyai.capture import capture

    made = make_environment(level)
    made.reset(seed=seed)
    return capture(made)


def make_environment(level: int) -> Any:
    """A minigrid environment of a level, new: some keep things from one reset to the next."""
    require_minigrid()
    from hansa_worlds.babyai.capture import make_quiet

    kind = getattr(import_module("minigrid.envs.babyai"), LEVELS[level].kind or LEVELS[level].name)
    return make_quiet(kind)(**dict(LEVELS[level].arguments))
