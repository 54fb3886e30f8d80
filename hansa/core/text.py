"""Text as people read it: counts with their nouns, and long text cut."""

from collections.abc import Callable


def count(number: int, noun: str, show: Callable[[int], str] = str) -> str:
    """A number of things: 1 round, 2 rounds, 3 entries."""
    if number == 1:
        return f"1 {noun}"
    many = f"{noun.removesuffix('y')}ies" if noun.endswith("y") else f"{noun}s"
    return f"{show(number)} {many}"


def shorten(text: object, most: int = 200) -> str:
    """A text on one line, cut where it is long."""
    return " ".join(str(text).split())[:most]


def ellipsize(text: str, most: int = 60) -> str:
    """A text cut with an ellipsis where it is long."""
    return text if len(text) <= most else f"{text[: most - 3]}..."
