"""Worlds that misbehave on request, for tests of those who must live with them."""

import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from hansa.api.worlds import BUILTIN, BuiltinWorld
from hansa_worlds import (
    Move,
    Observation,
    OptionError,
    Split,
    Task,
    World,
    WorldDown,
)

SECRET = "the-patient-is-Ada"
"""Stands for what an episode says; it may never leave the silo."""
DOWN = "http://127.0.0.1:9 does not answer"
TURNS = 3


class Odd(World):
    """Counts turns; in the tasks that option `fails` lists it fails, there and so as told."""

    name = "odd"
    max_turns = TURNS
    closed: ClassVar[list[str]] = []
    """Tasks whose world was closed, in this process."""

    def __init__(self, options: Mapping[str, object]) -> None:
        fields: dict[str, Any] = dict(options)
        self.options = options
        self.prompt = "none"
        self._sizes = {
            "train": fields.get("train", 20),
            "validation": 5,
            "test": fields.get("test", 8),
        }
        self._fails: list[int] = fields.get("fails", [])
        self._when: str = fields.get("when", "step")
        self._how: str = fields.get("how", "raise")
        self._index = -1

    def tasks(self, split: Split) -> Sequence[Task]:
        return [Task(f"odd-{split}-{n}", split, (str(n),)) for n in range(self._sizes[split])]

    def _begin(self, task: Task) -> str:
        self._index = int(task.payload[0])
        return self._answer("start").text

    def _act(self, action: str) -> Observation:
        self._acts()
        return self._answer("step" if self._turns == 2 else "")

    def _acts(self) -> None:
        """A place for children to wait."""

    def _answer(self, now: str) -> Observation:
        text = f"Reach the goal. position {self._turns}"
        if now != self._when or self._index not in self._fails:
            return Observation(text, 1.0 if self._turns == TURNS else 0.0, self._turns == TURNS)
        if self._how == "raise":
            raise KeyError(f"{SECRET} {text}")
        if self._how == "library":
            int(f"no number: {SECRET}")
        if self._how == "down":
            raise WorldDown(DOWN)
        if self._how == "option":
            raise OptionError("options.sessions: got 1, expected 2")
        if self._how == "exit":
            sys.exit(SECRET)
        if self._how == "memory":
            raise MemoryError
        bad: dict[str, Any] = {
            "no text": Observation(None),  # type: ignore[arg-type]
            "surrogate": Observation(f"{SECRET} \ud800"),
            "reward": Observation(SECRET, float("nan")),
            "words": Observation(SECRET, SECRET),  # type: ignore[arg-type]
            "nothing": None,
        }
        return bad[self._how]  # type: ignore[no-any-return]

    def close(self) -> None:
        Odd.closed.append(f"odd-{self._index}")
        raise OSError("nobody cares any more")


class OddWithExpert(Odd):
    """Odd, and somebody who plays it."""

    def expert(self) -> Move:
        return Move(f"It is turn {self._turns}.", "move up")


class Waiting(Odd):
    """Odd over a slow line: a step ends only when all the others have begun theirs."""

    waits = True
    barrier: ClassVar[threading.Barrier]

    def _acts(self) -> None:
        Waiting.barrier.wait(timeout=30)


@contextmanager
def offered() -> Iterator[None]:
    """These worlds by name, as if a package brought them."""
    kinds = {"odd": Odd, "odd-expert": OddWithExpert, "waiting": Waiting}
    known = dict(BUILTIN)
    BUILTIN.update(
        (n, BuiltinWorld(f"{kind.__module__}:{kind.__name__}", "odd")) for n, kind in kinds.items()
    )
    Odd.closed.clear()
    try:
        yield
    finally:
        BUILTIN.clear()
        BUILTIN.update(known)
