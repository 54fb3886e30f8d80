"""The live table of `hansa run` in a real terminal that is resized while it runs."""

import codecs
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import small
from tests.support.processes import MARK, PATIENCE_SECONDS, until
from tests.support.terminal import Terminal

pytestmark = pytest.mark.slow
_SIZELESS = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
"""Python's readline, which pytest may load, exports the size that its own terminal has."""
HEADLINE = re.compile(r"round (\d)/2")


class Watched:
    """`hansa run` at a pseudo-terminal, whose output a terminal shows."""

    def __init__(self, manifest: Path, out: Path) -> None:
        self._controller, worker = pty.openpty()
        self.terminal = Terminal(100, 30)
        self.headlines: list[str] = []
        self.drawn = 0
        self._lock = threading.Lock()
        self.resize(100, 30)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "hansa.cli.main", "run", str(manifest), "--out", str(out)],
            stdin=worker,
            stdout=worker,
            stderr=worker,
            env={**_SIZELESS, "TERM": "xterm-256color", MARK: str(out)},
            start_new_session=True,
        )
        os.close(worker)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def resize(self, columns: int, rows: int) -> None:
        with self._lock:
            self.terminal.resize(columns, rows)
            size = struct.pack("HHHH", rows, columns, 0, 0)
            fcntl.ioctl(self._controller, termios.TIOCSWINSZ, size)
            self.drawn = 0

    def visible(self) -> list[str]:
        with self._lock:
            return self.terminal.visible

    def ended(self) -> int:
        code = self.process.wait(PATIENCE_SECONDS)
        self._reader.join(10)
        return code

    def _read(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")()  # a read may end within a character
        while True:
            try:
                data = os.read(self._controller, 64)  # as little as a loaded machine may give
            except OSError:  # how Linux says that the program's side is closed
                return
            if not data:
                return
            with self._lock:
                self.terminal.feed(decoder.decode(data))
                self.drawn += b"round " in data
                shown = " ".join(self.terminal.visible)
                self.headlines += [shown] if HEADLINE.search(shown) else []


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    manifest = small.write_manifest(tmp_path, evaluation={"tasks": 60})
    run = Watched(manifest, tmp_path / "run")
    yield run
    run.process.kill()
    run.process.wait()


def is_drawn_once(rows: list[str], *, whole: bool = True) -> bool:
    """Whether the screen has one table: one headline, one row of titles, one row of each."""
    counts = [
        len(HEADLINE.findall(" ".join(rows))),
        len([row for row in rows if row.startswith("envi")]),
        *(len([row for row in rows if row.startswith(name)]) for name in ("maze ", "web")),
    ]
    return set(counts) == {1} if whole else max(counts) == 1 == counts[0]


def test_no_stale_line_is_left_when_the_terminal_is_resized(watched: Watched) -> None:
    until(lambda: is_drawn_once(watched.visible()), "the table to be drawn")
    for columns, rows in ((60, 30), (100, 30), (44, 30), (80, 4), (120, 30), (70, 12)):
        watched.resize(columns, rows)
        whole = rows > 4
        # What was drawn for the old size may arrive after the resize; a stale line would stay.
        until(
            lambda whole=whole: (
                watched.drawn >= 3 and is_drawn_once(watched.visible(), whole=whole)
            ),
            f"the table to be drawn once at {columns} x {rows}",
        )
        assert watched.process.poll() is None, "it ended before it was resized"
    watched.resize(100, 30)
    assert watched.ended() == 0
    rows_at_end = watched.visible()
    assert is_drawn_once(rows_at_end), "\n".join(rows_at_end)
    assert any(row.startswith("report:") for row in rows_at_end)


def test_the_time_left_is_shown_while_the_base_and_the_last_adapter_are_evaluated(
    watched: Watched,
) -> None:
    assert watched.ended() == 0
    first = [line for line in watched.headlines if "evaluating the base" in line]
    last = [line for line in watched.headlines if "round 2/2" in line and "Running" in line]
    for phase, lines in (("base", first), ("last", last)):
        evaluating = [line for line in lines if re.search(r"evaluate \d+/60", line)]
        assert evaluating, f"the {phase} was not seen while it was evaluated"
        assert re.search(r"about \d+:\d\d left", evaluating[-1]), evaluating[-1]
