"""A machine whose clock is wrong: Python imports this first from PYTHONPATH, as do all children."""

import datetime
import os
import time
from typing import Any

SHIFT_SECONDS = float(os.environ.get("HANSA_TEST_CLOCK_SECONDS", "0"))
_time, _datetime = time.time, datetime.datetime


class _Kind(type):
    def __instancecheck__(cls, thing: Any) -> bool:
        return isinstance(thing, _datetime)


class _Shifted(_datetime, metaclass=_Kind):
    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return _datetime.fromtimestamp(_time() + SHIFT_SECONDS, tz)

    @classmethod
    def utcnow(cls) -> Any:
        return cls.now(datetime.UTC).replace(tzinfo=None)


time.time = lambda: _time() + SHIFT_SECONDS
datetime.datetime = _Shifted  # type: ignore[misc]
