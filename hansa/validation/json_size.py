"""How many values a JSON document of another party may hold, counted before it is parsed."""

MOST_MARKS = 40_000
"""Commas, colons and opening brackets of a document at most. What follows one costs a parser up to
a kilobyte, and its error as much: 4 MiB of `{},` would take gigabytes."""
CROWDED = f"more than {MOST_MARKS} commas, colons and brackets, expected no more"


def is_crowded(data: bytes) -> bool:
    """Whether a document holds more values than a reader should take memory for; asked first."""
    return sum(data.count(mark) for mark in (b",", b":", b"[", b"{")) > MOST_MARKS
