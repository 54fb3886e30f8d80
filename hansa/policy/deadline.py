"""When a clock of a round runs out; no clock runs for what has not started."""

from datetime import datetime, timedelta


def ends_at(started_at: datetime | None, seconds: int) -> datetime | None:
    """The end of a span, or nothing while it has not begun."""
    return started_at + timedelta(seconds=seconds) if started_at else None


def is_over(end: datetime | None, now: datetime) -> bool:
    """Whether the span has ended."""
    return end is not None and now >= end


def earliest(*moments: datetime | None) -> datetime | None:
    """The next moment at which a clock runs out, if any runs."""
    running = [moment for moment in moments if moment is not None]
    return min(running, default=None)
