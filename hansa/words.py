"""Counts as people read them: one round, two rounds."""


def count(number: int, noun: str) -> str:
    """A number of things: 1 round, 2 rounds, 3 entries."""
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun.removesuffix('y')}ies" if noun.endswith("y") else f"{number} {noun}s"
