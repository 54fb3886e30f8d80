"""Processes of a run, found in /proc by their parents and folder: warm ones, Jobs and store."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

MARK = "HANSA_TEST_RUN"
"""Variable that a test's run carries: its folder, which all its processes can be found by."""
PATIENCE_SECONDS = 480.0
"""A bound against hanging tests, never a measure of anything: machines can be slow, and busy."""


def until(is_so: Callable[[], object], what: str, seconds: float = PATIENCE_SECONDS) -> None:
    """Return when it is so; fail with a sentence when that takes too long."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"waited {seconds:g} s in vain: {what}"
        time.sleep(0.01)


def without_reader(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """A `hansa` command whose standard output is a pipe that nobody reads any more."""
    read, write = os.pipe()
    os.close(read)
    try:
        return subprocess.run(
            [sys.executable, "-m", "hansa.cli.main", *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=write,
            stderr=subprocess.PIPE,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
    finally:
        os.close(write)


def is_gone(pid: int) -> bool:
    """Whether the process ended; one that nobody has reaped yet counts as ended."""
    return not pid or _stat(pid)[0] in "ZX"


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Send a signal to one process of a test's own run."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def children(pid: int) -> list[int]:
    """Living children of a process."""
    return [each for each in _all() if _stat(each)[1] == pid and not is_gone(each)]


def parent(pid: int) -> int:
    """The process that started it, or 0."""
    return _stat(pid)[1]


def warm(runner: int, module: str = "hansa_client") -> int:
    """The runner's warm process of a program, or 0."""
    return next((c for c in children(runner) if module in cmdline(c)), 0)


def weed(runner: int) -> int:
    """The runner's store, or 0; before its exec it is still a Python that will become one."""
    return next((c for c in children(runner) if cmdline(c)[:1] and _is_weed(c)), 0)


def jobs(runner: int) -> dict[str, int]:
    """Processes of the runner's Jobs by name; a Job is a fork whose output is its log."""
    found: dict[str, int] = {}
    for module in ("hansa_client", "hansa_server"):
        parent = warm(runner, module)
        for child in children(parent) if parent else []:
            log = output_of(child)
            if log.name == "log.txt":
                found[log.parent.name] = child
    return found


def of_run(folder: Path) -> list[int]:
    """Everything that lives and belongs to the run in a folder: nothing may outlive its runner."""
    mark = str(folder).encode()
    return [p for p in _all() if not is_gone(p) and mark in _bytes(p, "environ") + _text(p)]


def _is_weed(pid: int) -> bool:
    return cmdline(pid)[0].endswith("/weed")


def _all() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def _stat(pid: int) -> tuple[str, int]:
    """State and parent of a process."""
    fields = _bytes(pid, "stat").decode(errors="replace").rpartition(")")[2].split()
    return (fields[0], int(fields[1])) if fields else ("X", 0)


def cmdline(pid: int) -> list[str]:
    """Words that a process was started with; none of one that is gone."""
    return _text(pid).decode(errors="replace").split("\0")


def _text(pid: int) -> bytes:
    return _bytes(pid, "cmdline")


def _bytes(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def output_of(pid: int) -> Path:
    """File that a process writes to; a Job writes to its log."""
    try:
        return Path(f"/proc/{pid}/fd/1").readlink()
    except OSError:
        return Path()
