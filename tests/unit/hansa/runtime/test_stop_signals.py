"""A stop that Python swallows is remembered, and raised by the next loop that asks."""

import gc
import os
import signal
import sys
import weakref
from collections.abc import Iterator

import pytest

from hansa.runtime.stop_signals import raise_remembered_stop, stop_on_signals

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """The handlers of a program that has just begun; those of the tests come back."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    reports = sys.unraisablehook
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in SIGNALS[1:]:
        signal.signal(number, signal.SIG_DFL)
    yield
    stop_on_signals()  # forgets what a test has left
    sys.unraisablehook = reports
    for number, handler in before.items():
        signal.signal(number, handler)


class Referent:
    """Something that a weakref can point to."""


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stop_that_python_swallows_is_raised_at_the_next_turn(
    number: int, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    sys.unraisablehook = sys.__unraisablehook__  # pytest has one of its own
    stop_on_signals()
    referent = Referent()
    reference = weakref.ref(referent, lambda _: os.kill(os.getpid(), number))
    del referent  # its callback gets the signal, and what is raised there goes nowhere
    gc.collect()
    assert reference() is None
    with pytest.raises(KeyboardInterrupt) as stop:
        raise_remembered_stop()
    assert stop.value.args == (code,)
    raise_remembered_stop()  # it counts once
    assert capsys.readouterr().err == "", "no traceback of what is not lost"


def test_a_stop_arrives_at_once_where_it_can() -> None:
    stop_on_signals()
    with pytest.raises(KeyboardInterrupt) as stop:
        os.kill(os.getpid(), signal.SIGINT)
    assert stop.value.args == (130,)


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    stop_on_signals()
    assert {signal.getsignal(number) for number in SIGNALS} == {signal.SIG_IGN}


def test_a_new_command_forgets_the_stop_of_the_last() -> None:
    stop_on_signals()
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGTERM)
    stop_on_signals()
    raise_remembered_stop()


def test_other_exceptions_that_python_swallows_are_reported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sys.unraisablehook = sys.__unraisablehook__
    stop_on_signals()
    referent = Referent()
    reference = weakref.ref(referent, lambda _: [][0])
    del referent
    gc.collect()
    assert reference() is None
    assert "IndexError" in capsys.readouterr().err
