"""Signals that ask a command to stop: each is a KeyboardInterrupt, and none of them is lost.

Python swallows an exception that is raised within a callback of the garbage collector, for example
while urllib3 closes the connections of a pool that nobody uses any more. So a stop is also
remembered, and loops ask for it at each turn.
"""

import signal
import sys
from types import FrameType
from typing import Any

from hansa.core.exits import SIGNAL_BASE

_remembered: list[int] = []
_report_others = sys.unraisablehook


def stop_on_signals() -> None:
    """Let a terminal that closes, or a system that shuts down, mean the same as Ctrl-C."""
    _remembered.clear()
    if sys.unraisablehook is not _report_swallowed:
        global _report_others
        _report_others, sys.unraisablehook = sys.unraisablehook, _report_swallowed
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # One that is ignored stays so (nohup), as does another's handler.
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _stop)


def _report_swallowed(swallowed: Any) -> None:
    """Python's report of a swallowed exception, but not of a stop: that one is not lost."""
    if not issubclass(swallowed.exc_type, KeyboardInterrupt):
        _report_others(swallowed)


def raise_remembered_stop() -> None:
    """Raise the KeyboardInterrupt of a stop that was asked for, and never arrived."""
    if _remembered:
        raise KeyboardInterrupt(_remembered.pop(0))


def _stop(number: int, frame: FrameType | None) -> None:
    _remembered.append(SIGNAL_BASE + number)
    raise KeyboardInterrupt(SIGNAL_BASE + number)
