"""A member's spec is refused in a sentence that names the field."""

import pytest
from pydantic import ValidationError

from tests.support.members import AGREED, KEY, member


@pytest.mark.parametrize(
    "change, sentence",
    [
        (
            {"agreed": {**AGREED, "model": {"source": "builtin:tiny"}}},
            "agreed.model.sha256: got nothing",
        ),
        ({"limits": {"most": {"settings.exploration.taskPerRound": 1}}}, "limits.most: got "),
        ({"limits": {"only": {"rank": [1]}}}, "limits.only: got 'rank'"),
        ({"limits": {"free": ["settings.aggregations"]}}, "limits.free: got "),
        (
            {"limits": {"windows": [{"from": "1:00", "to": "02:00"}]}},
            "limits.windows.0.from",
        ),
        (
            {"limits": {"windows": [{"from": "01:00", "to": "02:00", "timeZone": "Mars"}]}},
            "limits.windows.timeZone: got 'Mars', expected a time zone such as Europe/Berlin",
        ),
        (
            {"limits": {"windows": [{"from": "01:00", "to": "02:00", "timeZone": "../etc"}]}},
            "limits.windows.timeZone: got '../etc'",
        ),
        ({"publicKeys": []}, "publicKeys"),
        ({"publicKeys": [KEY] * 4}, "publicKeys"),
        ({"publicKeys": ["ed25519:short"]}, "publicKeys.0"),
    ],
)
def test_what_does_not_fit_is_named(change, sentence) -> None:
    with pytest.raises(ValidationError) as error:
        member(**change)
    assert sentence in str(error.value)


def test_most_of_it_has_defaults() -> None:
    made = member()
    assert (made.retries, made.poll_seconds, made.limits.job_seconds) == (2, 15, 7200)
    assert not made.leave and not made.suspend
