"""Supervises one harness: runs it, and kills all its descendants when it or the client ends.

A program of its own without imports from Hansa, so that it starts quickly and outlives a client
that is killed with -9: the client holds the other end of its standard input, and when that closes,
all processes of the harness are killed, and its folder is removed.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_NOT_STARTED = 127
_SWEEPS = 200
_SWEEP_SECONDS = 0.01


def main(folder: str, command: list[str]) -> int:
    """Run the command; its exit status, 128 and the signal where one ended it."""
    if sys.platform.startswith("linux"):  # orphaned descendants become children of this process
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        harness = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    except OSError:
        return _NOT_STARTED
    is_left = threading.Event()

    def watch() -> None:
        while os.read(0, 4096):
            pass
        is_left.set()
        kill_group(harness.pid)

    threading.Thread(target=watch, daemon=True).start()
    code = harness.wait()
    kill_descendants(harness.pid)
    if is_left.is_set():
        shutil.rmtree(folder, ignore_errors=True)
    return code if code >= 0 else 128 - code


def kill_group(group: int) -> None:
    """Kill a process group, if it is still there."""
    with suppress(OSError):
        os.killpg(group, signal.SIGKILL)


def kill_descendants(group: int) -> None:
    """Kill all descendants, also those in process groups of their own."""
    kill_group(group)
    for _ in range(_SWEEPS):
        for child in list_children():
            with suppress(OSError):
                os.kill(child, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(_SWEEP_SECONDS)


def list_children() -> list[int]:
    """Processes whose parent this one is; where the system does not say, none."""
    try:
        listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    except OSError:
        return []
    return [int(pid) for pid in listed.split()]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
