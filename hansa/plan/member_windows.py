"""When a silo's Jobs may start: windows of its owner's week, by the owner's time zone. Pure."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from hansa.api.member_spec import DAYS, Window


def find_opening(windows: Sequence[Window], now: datetime) -> datetime | None:
    """The next moment at which work may start: `now` in a window; none where no window opens."""
    if not windows:
        return now
    spans = [span for window in windows for span in _list_spans(window, now)]
    return min((max(begin, now) for begin, end in spans if now < end), default=None)


def _list_spans(window: Window, now: datetime) -> list[tuple[datetime, datetime]]:
    """Those that begin from yesterday to a week from now, which holds each of its days once."""
    today = now.astimezone(ZoneInfo(window.time_zone)).date()
    days = (today + timedelta(days=offset) for offset in range(-1, 8))
    return [_build_span(window, day) for day in days if DAYS[day.weekday()] in window.days]


def _build_span(window: Window, day: date) -> tuple[datetime, datetime]:
    begin, end = time.fromisoformat(window.from_), time.fromisoformat(window.to)
    last = day if begin < end else day + timedelta(days=1)
    zone = ZoneInfo(window.time_zone)
    return (
        datetime.combine(day, begin, zone).astimezone(UTC),
        datetime.combine(last, end, zone).astimezone(UTC),
    )
