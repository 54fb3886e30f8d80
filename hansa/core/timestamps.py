"""Moments as statuses have them: with a time zone, and with room for a timeout after them."""

from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, Strict

LAST_YEAR = 9000
"""Later moments leave no room for a timeout after them."""


def _check_time(moment: datetime) -> datetime:
    if moment.tzinfo is None or moment.year > LAST_YEAR:
        raise ValueError(
            f"got {moment.isoformat()}, expected a time zone and a year to {LAST_YEAR}"
        )
    return moment


Time = Annotated[datetime, Strict(False), AfterValidator(_check_time)]
