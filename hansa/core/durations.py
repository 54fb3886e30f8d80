"""Times and ratios as people read them, and pauses between tries."""

from datetime import datetime
from typing import Any


def span(seconds: float) -> str:
    """A length of time in at most two units: 8s, 4m10s, 3h20m, 2d4h."""
    left = max(0, round(seconds))
    for unit, size, lower, lower_size in (
        ("d", 86_400, "h", 3600),
        ("h", 3600, "m", 60),
        ("m", 60, "s", 1),
    ):
        if left >= size:
            rest = left % size // lower_size
            return f"{left // size}{unit}" + (f"{rest}{lower}" if rest else "")
    return f"{left}s"


def clock(moment: datetime) -> str:
    """A moment in the reader's own time zone."""
    return f"{moment.astimezone():%H:%M:%S}"


def ago(since: datetime | None, now: datetime) -> str:
    """How long ago; empty when nobody knows."""
    return span((now - since).total_seconds()) if since else ""


def ahead(until: datetime, now: datetime) -> str:
    """How long until then, or by how much it has passed."""
    seconds = (until - now).total_seconds()
    return f"in {span(seconds)}" if seconds >= 0 else f"{span(-seconds)} ago"


def ratio(text: Any) -> str:
    """A success ratio in percent; empty when nothing was measured."""
    try:
        return f"{float(text):.1%}"
    except (TypeError, ValueError):
        return ""


def backoff_seconds(tries: int, share: float, first: float, longest: float) -> float:
    """Pause after failed tries; a random share of a bound that doubles keeps clients apart."""
    return share * min(longest, first * 2.0 ** min(tries - 1, 30))
