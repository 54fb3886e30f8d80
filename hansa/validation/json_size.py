"""How many values a JSON document of another party may hold, counted before it is parsed."""

MOST_MARKS = 40_000
"""Most commas, colons and opening brackets of a document. Each value costs a parser up to a
kilobyte, and an error as much again: 4 MiB of `{},` would take gigabytes."""
CROWDED = f"more than {MOST_MARKS} commas, colons and brackets, expected no more"


def is_crowded(data: bytes) -> bool:
    """Whether a document holds too many values to be parsed; checked before parsing."""
    return sum(data.count(mark) for mark in (b",", b":", b"[", b"{")) > MOST_MARKS
