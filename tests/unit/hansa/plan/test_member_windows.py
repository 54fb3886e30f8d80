"""Work starts only in the hours that the silo's owner gave."""

from datetime import UTC, datetime

import pytest

from hansa.api.member_spec import Window
from hansa.plan.member_windows import find_opening

NIGHTS = Window.model_validate(
    {
        "days": ["Mon", "Tue", "Wed", "Thu", "Fri"],
        "from": "20:00",
        "to": "06:00",
        "timeZone": "Europe/Berlin",
    }
)
NOON = Window.model_validate({"from": "12:00", "to": "13:00"})


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    "now, expected",
    [
        pytest.param("2026-11-17 10:00", "2026-11-17 19:00", id="by day, one waits for the night"),
        pytest.param("2026-11-17 19:00", "2026-11-17 19:00", id="its first moment"),
        pytest.param("2026-11-18 04:59", "2026-11-18 04:59", id="after midnight it is still open"),
        pytest.param("2026-11-18 05:00", "2026-11-18 19:00", id="its end is outside"),
        pytest.param("2026-11-21 04:00", "2026-11-21 04:00", id="Friday's night is Saturday's too"),
        pytest.param("2026-11-21 12:00", "2026-11-23 19:00", id="over the weekend"),
        pytest.param("2026-07-01 10:00", "2026-07-01 18:00", id="in summer time"),
    ],
)
def test_the_next_start_is_by_the_owners_days_and_clock(now, expected) -> None:
    assert find_opening([NIGHTS], at(now)) == at(expected)


def test_the_first_of_several_windows_counts() -> None:
    assert find_opening([NIGHTS, NOON], at("2026-11-17 10:00")) == at("2026-11-17 12:00")


def test_without_windows_work_may_always_start() -> None:
    assert find_opening([], at("2026-11-17 10:00")) == at("2026-11-17 10:00")


def test_a_window_from_a_time_to_the_same_time_is_a_whole_day() -> None:
    whole = Window.model_validate({"days": ["Sun"], "from": "00:00", "to": "00:00"})
    assert find_opening([whole], at("2026-11-22 23:59")) == at("2026-11-22 23:59")
    assert find_opening([whole], at("2026-11-23 00:00")) == at("2026-11-29 00:00")
