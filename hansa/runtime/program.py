"""The frame of a Job's program: it reads the assignment, writes the report and sets the exit code.

Client and server share it, so that an executor reads the same codes and files from both.
"""

import contextlib
import errno
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hansa.api.assignment import (
    ENV_ASSIGNMENT,
    ENV_PROGRESS,
    ENV_REPORT,
    TERMINATION_LOG,
    Assignment,
    decode_assignment,
)
from hansa.api.reports import AnyReport, encode_report
from hansa.core import logs
from hansa.core.errors import HansaError, PermanentError
from hansa.core.exits import Exit
from hansa.core.files import replace_file

ENV_DEBUG = "HANSA_DEBUG"
TERMINATED = 128 + signal.SIGTERM
INTERRUPTED = 128 + signal.SIGINT
PROGRESS_SECONDS = 0.25
"""Shortest time between two writes of the progress file; a new phase is written at once."""


def main(usage: str, run: Callable[[], int]) -> int:
    """A program without arguments; with --warm it imports, and forks for each assignment."""
    arguments = sys.argv[1:]
    if arguments == ["--warm"]:
        from hansa.runtime.warm_parent import serve  # a Pod never needs it
        from hansa.store.s3 import preload

        preload()
        serve(run)
        return Exit.DONE
    if arguments:
        sys.stderr.write(usage)
        return Exit.DONE if arguments == ["--help"] else Exit.BAD_INPUT
    return run()


def run_assignment(program: str, work: Callable[[Assignment], AnyReport]) -> int:
    """Do the work that HANSA_ASSIGNMENT describes, report it, and return the exit code."""
    return run_work(program, lambda: work(load_assignment()))


def run_work(program: str, work: Callable[[], AnyReport]) -> int:
    """Do some work, report it, and return the exit code.

    An error that carries a `report` writes it as well: the exit code still says what happened, and
    the report says to whom.
    """
    log = logs.get(program)
    _die_on_sigterm()
    try:
        write_report(work())
        return Exit.DONE
    except HansaError as error:
        _write_last_report(error)
        return _explain(log, error)
    except KeyboardInterrupt:
        log.error("interrupted")
        return INTERRUPTED
    except Exception as error:
        return _crash(log, error)


def load_assignment() -> Assignment:
    """What this process is to do, as its environment says."""
    return decode_assignment(read_assignment())


def read_assignment() -> str:
    """This process's assignment, as it came; nothing is a permanent error."""
    text = os.environ.get(ENV_ASSIGNMENT, "")
    if not text:
        raise PermanentError(
            f"{ENV_ASSIGNMENT}: got nothing, expected an assignment as JSON",
            hint="this program is started by `hansa run` or the operator",
        )
    return text


def write_report(report: AnyReport) -> None:
    """Leave the report where the executor reads it, whole or not at all."""
    data = encode_report(report)
    target = os.environ.get(ENV_REPORT)
    if target:
        replace_file(Path(target), data)
    else:  # the kubelet mounts this one file: it cannot be renamed over
        Path(TERMINATION_LOG).write_bytes(data)


class Progress:
    """What the program does now, in a file for an executor to show; losing it harms nothing."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._written = float("-inf")
        self._phase: Any = None

    def __call__(self, **fields: Any) -> None:
        """Show these fields; calls in quick succession are dropped."""
        target = os.environ.get(ENV_PROGRESS)
        now = self._clock()
        soon = now - self._written < PROGRESS_SECONDS
        if not target or (soon and fields.get("phase") == self._phase):
            return
        self._written, self._phase = now, fields.get("phase")
        with contextlib.suppress(OSError):
            replace_file(Path(target), json.dumps(fields, sort_keys=True).encode())


progress = Progress()
"""The process's progress: `progress(phase="explore", done=12, total=48)`."""


def _explain(log: logs.Log, error: HansaError) -> int:
    fields: dict[str, Any] = {"message": error.message}
    if error.hint:
        fields["hint"] = error.hint
    if os.environ.get(ENV_DEBUG) == "1":
        fields["traceback"] = "".join(traceback.format_exception(error))
    log.error("stopped", **fields)
    # A program's input is its assignment: trying the same one again cannot fix it.
    return Exit.PERMANENT if error.exit is Exit.BAD_INPUT else error.exit


def _crash(log: logs.Log, error: Exception) -> int:
    if isinstance(error, MemoryError):
        log.error("crashed", message="out of memory", hint="raise the Pod's memory limit")
    elif isinstance(error, OSError) and error.errno == errno.ENOSPC:
        where = f" ({error.filename})" if error.filename else ""
        log.error("crashed", message=f"no space left on the disk{where}", hint="free some space")
    else:
        log.error("crashed", traceback="".join(traceback.format_exception(error)))
    return Exit.CRASHED


def _write_last_report(error: HansaError) -> None:
    report = getattr(error, "report", None)
    if report is not None:
        with contextlib.suppress(OSError):  # the exit code alone must do
            write_report(report)


def _die_on_sigterm() -> None:
    """Exit at once on SIGTERM: every file is written atomically, so there is nothing to clean up.

    Process 1 of a container ignores SIGTERM unless it has a handler, and would be killed late.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda number, frame: _exit_now())


def _exit_now() -> None:
    with contextlib.suppress(OSError):  # past Python's buffers, which the signal may have entered
        os.write(2, b"terminated\n")
    os._exit(TERMINATED)
