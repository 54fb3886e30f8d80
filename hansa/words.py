"""Counts as people read them: one round, two rounds."""

from collections.abc import Callable


def count(number: int, noun: str, show: Callable[[int], str] = str) -> str:
    """A number of things: 1 round, 2 rounds, 3 entries."""
    if number == 1:
        return f"1 {noun}"
    many = f"{noun.removesuffix('y')}ies" if noun.endswith("y") else f"{noun}s"
    return f"{show(number)} {many}"
