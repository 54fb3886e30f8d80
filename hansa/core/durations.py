"""Times and ratios as text for people, and pauses between retries."""

from datetime import datetime
from itertools import pairwise
from typing import Any


def format_duration(seconds: float) -> str:
    """A length of time in at most two units: 8s, 4m10s, 3h20m, 2d4h."""
    left = max(0, round(seconds))
    units = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))
    for (unit, size), (lower, lower_size) in pairwise(units):
        if left >= size:
            rest = left % size // lower_size
            return f"{left // size}{unit}" + (f"{rest}{lower}" if rest else "")
    return f"{left}s"


def format_clock(moment: datetime) -> str:
    """A moment in the reader's own time zone."""
    return f"{moment.astimezone():%H:%M:%S}"


def format_age(since: datetime | None, now: datetime) -> str:
    """How long ago; empty when unknown."""
    return format_duration((now - since).total_seconds()) if since else ""


def format_countdown(until: datetime, now: datetime) -> str:
    """Time until a moment, or since it."""
    seconds = (until - now).total_seconds()
    return f"in {format_duration(seconds)}" if seconds >= 0 else f"{format_duration(-seconds)} ago"


def format_percent(text: Any) -> str:
    """A success ratio in percent; empty when nothing was measured."""
    try:
        return f"{float(text):.1%}"
    except (TypeError, ValueError):
        return ""


def backoff_seconds(tries: int, share: float, first: float, longest: float) -> float:
    """Exponential backoff after failed tries, with `share` as random jitter."""
    return share * min(longest, first * 2.0 ** min(tries - 1, 30))
