"""Reading a turn of an OpenEnv server: every field is checked, for it goes into training."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hansa.core.http import HttpError
from hansa_worlds.base import Observation
from hansa_worlds.remote.text import clean, read_reward

METADATA = "metadata"
"""Of an observation; nothing that the agent reads unless the options name it."""


def parse_turn(data: Mapping[str, Any], fields: Sequence[str]) -> Observation:
    """The result of a reset or a step."""
    observed = data.get("observation")
    if not isinstance(observed, dict):
        raise HttpError("answer", "no observation")
    done = data.get("done", False)
    if not isinstance(done, bool):
        raise HttpError("answer", "no true or false in 'done'")
    reward = 0.0 if data.get("reward") is None else read_reward(data["reward"], "reward")
    return Observation(clean(_render_text(observed, fields)), reward, done)


def has_any_field(data: Mapping[str, Any], fields: Sequence[str]) -> bool:
    """Whether an answer's observation has one of the fields."""
    return any(_look_up(data.get("observation"), field)[0] for field in fields)


def _render_text(observed: dict[str, Any], fields: Sequence[str]) -> str:
    """The chosen fields; by default all texts, or the whole observation if it has no text."""
    if fields:
        values = [_look_up(observed, field)[1] for field in fields]
    else:
        rest = {name: value for name, value in observed.items() if name != METADATA}
        values = [value for value in rest.values() if isinstance(value, str)] or [rest]
    return "\n".join(_to_text(value) for value in values if value not in (None, ""))


def _to_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _look_up(value: object, path: str) -> tuple[bool, Any]:
    """The value at a path such as messages.-1.content."""
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
