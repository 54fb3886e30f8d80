"""Environments as Gymnasium has them, written without Gymnasium."""

from __future__ import annotations

import random
from typing import Any


class Higher:
    """Guess a number from 1 to 9; the answers say where to look."""

    def __init__(self, tries: int = 5) -> None:
        self.tries = tries
        self.closed = False

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        self.left = self.tries
        self.number = random.Random(seed).randint(1, 9)
        return "Guess a number from 1 to 9.", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.left -= 1
        if action == str(self.number):
            return "Right.", 1.0, True, False, {}
        if action == "raise":
            raise RuntimeError(f"no {action}")
        known = action.isdecimal() and action.isascii() and len(action) < 4
        said = "What?" if not known else "Higher." if int(action) < self.number else "Lower."
        return said, 0.5, False, self.left == 0, {}

    def close(self) -> None:
        self.closed = True


class Needy(Higher):
    """Cannot be made without a path."""

    def __init__(self, path: str, tries: int = 5) -> None:
        super().__init__(tries)
        self.path = path


class Numbered(Higher):
    """The same with numbered actions, and observations with more than text in them."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        text, info = super().reset(seed=seed)
        return {"text": text, "image": [0, 1]}, info

    def step(self, action: Any) -> Any:
        if not isinstance(action, int):
            raise TypeError("a number")
        text, *rest = super().step(str(action + 1))
        return {"text": text, "image": [0, 1]}, *rest


class Wrong(Higher):
    """Answers as no environment should."""

    def __init__(self, reset: Any = None, step: Any = None) -> None:
        super().__init__()
        self.answers = {"reset": reset, "step": step}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        wrong = self.answers["reset"]
        return super().reset(seed=seed) if wrong is None else wrong

    def step(self, action: str) -> Any:
        wrong = self.answers["step"]
        return super().step(action) if wrong is None else tuple(wrong)


names = 3
"""No environment at all."""


def made(**kwargs: Any) -> Higher:
    """A function that makes one: it could do anything else."""
    return Higher(**kwargs)
