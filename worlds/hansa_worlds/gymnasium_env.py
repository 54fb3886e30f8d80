"""A world as an environment of Gymnasium's: text is observed, and text is the action."""

from __future__ import annotations

import string
from collections.abc import Mapping
from typing import Any, cast

import gymnasium
from gymnasium import spaces

from hansa_worlds.base import LONGEST_ACTION, SPLITS, Observation, Split, Task
from hansa_worlds.errors import OptionError
from hansa_worlds.registry import make

LONGEST_TEXT = 20_000
"""Characters of an observation; no world of ours comes near it."""
_CHARACTERS = string.printable
_KNOWN = frozenset(_CHARACTERS)


class WorldEnv(gymnasium.Env[str, str]):
    """Plays one world.

    `reset(seed=n)` begins task n of the split, `reset()` a drawn one; `options={"split": "test"}`
    chooses another split for this episode. Time that ran out is truncation, any other end
    termination. What is no printable ASCII is observed as a question mark.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012

    def __init__(
        self,
        world: str,
        options: Mapping[str, object] | None = None,
        split: str = "train",
        render_mode: str | None = None,
    ) -> None:
        if render_mode not in (None, "ansi"):
            raise OptionError(f"render_mode: got {render_mode!r}, expected 'ansi' or None")
        self.render_mode = render_mode
        self.world = make(world, options)
        self.split = _check_split(split)
        self.observation_space = spaces.Text(LONGEST_TEXT, min_length=0, charset=_CHARACTERS)
        self.action_space = spaces.Text(LONGEST_ACTION, min_length=0, charset=_CHARACTERS)
        self._task: Task | None = None
        self._text = ""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Begin an episode; the text holds the rules and the first observation."""
        super().reset(seed=seed)
        unknown = sorted((options or {}).keys() - {"split"}, key=str)
        if unknown:
            raise OptionError(f"options: got {unknown[0]!r}, expected split")
        tasks = self.world.tasks(_check_split((options or {}).get("split", self.split)))
        number = int(self.np_random.integers(len(tasks))) if seed is None else seed % len(tasks)
        self._task = tasks[number]
        return self._see(self.world.start(self._task)), self._info()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play one turn; whatever the text is, it is one."""
        seen = self.world.step(str(action))
        out_of_time = self.world.turns_left == 0 and not self.world.success
        truncated = seen.done and out_of_time
        text = self._see(seen)
        return text, float(seen.reward), seen.done and not truncated, truncated, self._info()

    def render(self) -> str | None:
        """The last observation."""
        return self._text if self.render_mode == "ansi" else None

    def close(self) -> None:
        """Give back what the world holds."""
        self.world.close()

    def _see(self, seen: Observation) -> str:
        self._text = "".join(c if c in _KNOWN else "?" for c in seen.text[:LONGEST_TEXT])
        return self._text

    def _info(self) -> dict[str, Any]:
        task = cast(Task, self._task)
        return {"task": task.id, "split": task.split, "success": self.world.success}


def _check_split(split: object) -> Split:
    for known in SPLITS:
        if split == known:
            return known
    raise OptionError(f"split: got {split!r}, expected {' or '.join(SPLITS)}")
