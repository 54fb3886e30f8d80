"""The 40 levels by number, and how package minigrid makes the room of a level and a seed."""

import os
from functools import lru_cache
from importlib import import_module
from typing import Any

from hansa_worlds.babyai.grid import Start
from hansa_worlds.errors import WorldError


class Level:
    """One level: its name in the literature, and minigrid's class and arguments that make it."""

    def __init__(self, name: str, kind: str = "", **arguments: object) -> None:
        self.name, self.kind, self.arguments = name, kind or name, arguments


LEVELS: dict[int, Level] = dict(
    enumerate(
        (
            Level("GoToRedBallGrey"),
            Level("GoToRedBall"),
            Level("GoToRedBallNoDists"),
            Level("GoToObjS6", "GoToObj", room_size=6),
            Level("GoToLocalS8N7", "GoToLocal", room_size=8, num_dists=7),
            Level("GoToObjMazeS7", "GoTo", num_dists=1, room_size=7),
            Level("GoToImpUnlock"),
            Level("GoToSeqS5R2", "GoToSeq", room_size=5, num_rows=2, num_cols=2, num_dists=4),
            Level("GoToRedBlueBall"),
            Level("GoToDoor"),
            Level("GoToObjDoor"),
            Level("Open"),
            Level("OpenRedDoor"),
            Level("OpenDoorLoc", "OpenDoor", select_by="loc"),
            Level(
                "OpenRedBlueDoorsDebug",
                "OpenTwoDoors",
                first_color="red",
                second_color="blue",
                strict=True,
            ),
            Level("OpenDoorsOrderN4Debug", "OpenDoorsOrder", debug=True, num_doors=4),
            Level("Pickup"),
            Level("UnblockPickup"),
            Level("PickupLoc"),
            Level("PickupDistDebug", "PickupDist", debug=True),
            Level("PickupAbove"),
            Level("PutNextLocalS6N4", "PutNextLocal", room_size=6, num_objs=4),
            Level(
                "PutNextS7N4Carrying", "PutNext", room_size=7, objs_per_room=4, start_carrying=True
            ),
            Level("Unlock"),
            Level("UnlockLocalDist", "UnlockLocal", distractors=True),
            Level("KeyInBox"),
            Level("UnlockPickupDist", "UnlockPickup", distractors=True),
            Level("BlockedUnlockPickup"),
            Level("UnlockToUnlock"),
            Level("ActionObjDoor"),
            Level("FindObjS7", "FindObjS5", room_size=7),
            Level("KeyCorridorS6R3", "KeyCorridor", room_size=6, num_rows=3),
            Level("OneRoomS20", "OneRoomS8", room_size=20),
            Level("MoveTwoAcrossS8N9", "MoveTwoAcross", room_size=8, objs_per_room=9),
            Level("SynthS5R2", "Synth", room_size=5, num_rows=2),
            Level("SynthLoc"),
            Level("SynthSeq"),
            Level("MiniBossLevel"),
            Level("BossLevel"),
            Level("BossLevelNoUnlock"),
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

    kind = getattr(import_module("minigrid.envs.babyai"), LEVELS[level].kind)
    return make_quiet(kind)(**LEVELS[level].arguments)
