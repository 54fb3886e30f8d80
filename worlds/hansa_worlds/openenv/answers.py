"""Reading a turn of an OpenEnv server: every field is checked, for it goes into training."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from hansa.core.http import HttpError
from hansa_worlds.base import Observation
from hansa_worlds.remote.text import LARGEST_REWARD, clean

METADATA = "metadata"
"""Of an observation; nothing that the agent reads unless the options name it."""


def turn_in(data: Mapping[str, Any], fields: Sequence[str]) -> Observation:
    """What a reset or a step brought."""
    observed = data.get("observation")
    if not isinstance(observed, dict):
        raise HttpError("answer", "no observation")
    done = data.get("done", False)
    if not isinstance(done, bool):
        raise HttpError("answer", "no true or false in 'done'")
    return Observation(clean(_text(observed, fields)), _reward(data.get("reward")), done)


def has_any(data: Mapping[str, Any], fields: Sequence[str]) -> bool:
    """Whether an answer's observation has one of the fields, whatever is in it."""
    return any(_found(data.get("observation"), field)[0] for field in fields)


def _reward(value: object) -> float:
    if value is None:
        return 0.0
    if not isinstance(value, int | float) or math.isnan(value) or abs(value) > LARGEST_REWARD:
        raise HttpError("answer", "no number in 'reward'")
    return float(value)


def _text(observed: dict[str, Any], fields: Sequence[str]) -> str:
    """The fields that were asked for; else all texts, and the whole where there is none."""
    if fields:
        values = [_found(observed, field)[1] for field in fields]
    else:
        rest = {name: value for name, value in observed.items() if name != METADATA}
        values = [value for value in rest.values() if isinstance(value, str)] or [rest]
    return "\n".join(_shown(value) for value in values if value not in (None, ""))


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _found(value: object, path: str) -> tuple[bool, Any]:
    """What stands at a path such as messages.-1.content."""
    for part in path.split("."):
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.removeprefix("-").isdecimal():
            try:
                value = value[int(part)]
            except (IndexError, ValueError):
                return False, None
        else:
            return False, None
    return True, value
