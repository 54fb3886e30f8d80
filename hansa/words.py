"""Counts as people read them: one round, two rounds."""


def count(number: int, thing: str) -> str:
    """A number of things, as `1 round` and `2 rounds`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
