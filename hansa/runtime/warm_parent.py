"""The warm process: it imports heavy libraries once, and forks one child per Job.

Importing torch costs seconds, and the libraries for models from elsewhere many more; a fork costs
milliseconds. The parent must not have touched a tensor, a thread pool or CUDA, none of which
survives a fork.

It speaks JSON lines: {"start": name, "environ": {...}, "log": path} and {"stop": name} on its
standard input, {"started": name, "pid": n} and {"exited": name, "code": n} on its standard output.
"""

import json
import os
import select
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hansa.core.exits import SIGNAL_BASE
from hansa.core.logs import extract_message
from hansa.runtime.lifeline import die_with_parent

_LONGEST_SENTENCE = 1_000


def serve(
    run: Callable[[], int], prepare: Callable[[Mapping[str, str]], None] = lambda environ: None
) -> None:
    """Fork a child that calls `run` for every start line, until standard input ends.

    `prepare` is called before each fork with the child's environment: what it imports then is
    there for all that follow.
    """
    die_with_parent()
    children: dict[int, str] = {}
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the runner decides what Ctrl-C means
    _send({"ready": os.getpid()})
    pending = b""
    while True:
        readable, _, _ = select.select([0, wake_read], [], [])
        if wake_read in readable:
            os.read(wake_read, 4096)
            _reap(children)
        if 0 in readable:
            chunk = os.read(0, 65536)
            if not chunk:
                break
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                message = json.loads(line)
                if "start" in message:
                    prepare(message["environ"])
                _handle_message(message, run, children)
    for pid in children:
        os.kill(pid, signal.SIGKILL)


def _handle_message(
    message: dict[str, Any], run: Callable[[], int], children: dict[int, str]
) -> None:
    if "stop" in message:
        for pid, name in children.items():
            if name == message["stop"]:
                os.kill(pid, signal.SIGKILL)
        return
    name = str(message["start"])
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _run_child(message, run, parent)
    children[pid] = name
    _send({"started": name, "pid": pid})


def _run_child(message: dict[str, Any], run: Callable[[], int], parent: int) -> None:
    """Turn the forked child into the Job: own environment, own log, own exit."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        die_with_parent(parent)
        os.environ.update(message["environ"])
        tempfile.tempdir = None  # the parent's, if it has asked for one
        log = os.open(message["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        code = run()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # no exit handlers of the parent run twice


def _reap(children: dict[int, str]) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        code = os.waitstatus_to_exitcode(status)
        name = children.pop(pid, "")
        _send({"exited": name, "code": code if code >= 0 else SIGNAL_BASE - code})


def _send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def read_last_line(log: Path) -> str:
    """The last line of a Job's log: the sentence that it stopped with."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 16_384))
            lines = file.read().decode(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1] if lines else ""


def read_last_sentence(log: Path) -> str:
    """The sentence that a program ended with, as far as a status has room for it."""
    return extract_message(read_last_line(log))[:_LONGEST_SENTENCE]
