"""The warm process: one fork per Job, told by lines, and gone with its parent."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hansa.runtime.warm_parent import read_last_line
from tests.support import processes
from tests.support.processes import until

SERVE = """
import os, sys, time
from hansa.runtime.warm_parent import serve

def run():
    print("hello from", os.environ["NAME"], "after", os.environ["PREPARED"], flush=True)
    assert os.read(0, 1) == b""
    match os.environ["DO"]:
        case "hang": time.sleep(600)
        case "raise": raise ValueError("with a traceback")
        case "exit": sys.exit(7)
    return int(os.environ["DO"])

prepared = []

def prepare(environ):
    prepared.append(environ["NAME"])
    os.environ["PREPARED"] = " ".join(prepared)

serve(run, prepare)
"""
PARENT = """
import subprocess, sys, time
from hansa.runtime.lifeline import die_with_parent
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdin=subprocess.PIPE,
                         preexec_fn=die_with_parent)
time.sleep(600)
"""


class Warm:
    """A warm process and its lines."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, processes.MARK: str(folder)},
        )
        assert "ready" in self.hear()

    def tell(self, text: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def start(self, name: str, does: str) -> int:
        environ = {"NAME": name, "DO": does}
        log = str(self.folder / f"{name}.txt")
        self.tell(json.dumps({"start": name, "environ": environ, "log": log}).encode() + b"\n")
        return int(self.hear()["pid"])

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout
        message: dict[str, Any] = json.loads(self.process.stdout.readline())
        return message


@pytest.fixture
def warm(tmp_path: Path) -> Iterator[Warm]:
    running = Warm(tmp_path)
    yield running
    assert running.process.stdin and running.process.stdout
    running.process.stdin.close()
    running.process.wait(60)
    running.process.stdout.close()
    until(lambda: not processes.of_run(tmp_path), "all its children to end with it")


@pytest.mark.parametrize(
    "does, code, log",
    [
        pytest.param("0", 0, "hello from some", id="done"),
        pytest.param("42", 42, "hello from some", id="an exit code"),
        pytest.param("exit", 7, "hello from some", id="sys.exit"),
        pytest.param("raise", 1, "ValueError: with a traceback", id="an exception"),
    ],
)
def test_it_tells_how_a_job_ended_and_keeps_what_it_said(
    warm: Warm, does: str, code: int, log: str
) -> None:
    warm.start("some", does)
    assert warm.hear() == {"exited": "some", "code": code}
    assert log in (warm.folder / "some.txt").read_text()


def test_what_is_prepared_for_one_job_is_there_for_the_next(warm: Warm) -> None:
    for name in ("one", "two"):
        warm.start(name, "0")
        assert warm.hear()["exited"] == name
    assert "hello from two after one two" in (warm.folder / "two.txt").read_text()


def test_a_stopped_job_is_told_as_killed_and_others_stay(warm: Warm) -> None:
    pids = {name: warm.start(name, "hang") for name in ("one", "two")}
    warm.tell(b'{"stop": "one"}\n')
    assert warm.hear() == {"exited": "one", "code": 137}
    assert processes.is_gone(pids["one"]) and not processes.is_gone(pids["two"])


def test_stopping_what_is_not_there_is_no_error(warm: Warm) -> None:
    warm.tell(b'{"stop": "nobody"}\n')
    warm.start("some", "3")
    assert warm.hear() == {"exited": "some", "code": 3}


def test_a_line_may_come_in_pieces_and_two_lines_in_one(warm: Warm) -> None:
    lines = b"".join(
        json.dumps({"start": n, "environ": {"NAME": n, "DO": "0"}, "log": os.devnull}).encode()
        + b"\n"
        for n in ("one", "two")
    )
    for piece in (lines[:10], lines[10:90], lines[90:]):
        warm.tell(piece)
    heard = [warm.hear() for _ in range(4)]
    assert sorted(m["exited"] for m in heard if "exited" in m) == ["one", "two"]


def test_it_ends_with_a_killed_parent(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, SERVE],
        stdout=subprocess.PIPE,
        env={**os.environ, processes.MARK: str(tmp_path)},
    )
    assert parent.stdout and b"ready" in parent.stdout.readline()
    assert len(processes.of_run(tmp_path)) == 2
    parent.kill()
    parent.wait()
    parent.stdout.close()
    until(lambda: not processes.of_run(tmp_path), "the warm process to end")


def test_the_last_line_of_a_log_is_bounded_and_never_an_error(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    assert read_last_line(log) == ""
    log.write_bytes(b"")
    assert read_last_line(log) == ""
    log.write_bytes(b"x" * 9000 + b"\nfirst\n\xff last\n\n")
    assert read_last_line(log).endswith(" last")
    log.write_bytes(b"y" * 90_000)
    assert len(read_last_line(log)) == 16_384
