"""`hansa` inside the test's process, and a world that a test can make misbehave."""

from collections.abc import Sequence
from typing import Any

import pytest

from hansa.api.worlds import BUILTIN, BuiltinWorld
from hansa_worlds import Observation, Split, Task, World


class Steering(World):
    """A world without players that writes to the terminal what a terminal obeys."""

    name = "steering"
    rules = "Say go."

    def tasks(self, split: Split) -> Sequence[Task]:
        return [] if split == "validation" else [Task(f"steering-{split}", split, (split,))]

    def _begin(self, task: Task) -> str:
        return "\x1b[2J\x07gone\u202e\r\nnext\ud800 [red]line[/red]"

    def _act(self, action: str) -> Observation:
        if action == "raise":
            raise RuntimeError("the world broke")
        return Observation("on", 0.5, False) if action != "go" else Observation("well", 1.0, True)


@pytest.fixture
def steering(monkeypatch: pytest.MonkeyPatch) -> str:
    """Name of that world, known to the registry for the length of a test."""
    monkeypatch.setitem(BUILTIN, "steering", BuiltinWorld(f"{__name__}:Steering", "steers"))
    return "steering"


def without(document: dict[str, Any], *names: str) -> dict[str, Any]:
    """The document without some of its fields."""
    return {name: value for name, value in document.items() if name not in names}
