"""Consoles in the documents: types each `$ command` again, and compares or writes what it prints.

    python tools/console.py docs/worlds.md            # says what differs
    python tools/console.py --write docs/worlds.md    # brings the page up to date

A line `...` in a shown output stands for any lines. Commands share one new folder per page.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

BLOCK = re.compile(r"^```console\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
PATIENCE_SECONDS = 300
ANY = "..."


@dataclass(frozen=True)
class Typed:
    """One command of a page, and what the page says that it prints."""

    command: str
    shown: list[str]

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for line in (f"$ {self.command}", *self.shown))


def parse(block: str) -> Iterator[Typed]:
    """The commands of a block; what stands before the first one is none."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, *shown = part.splitlines()
        yield Typed(command, shown)


def typed_in(command: str, folder: Path) -> list[str]:
    """The lines that a command prints to stdout, without what hangs on their ends."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": path, "NO_COLOR": "1", "OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"$ {command}\nended with {done.returncode}: {done.stderr}")
    return [line.rstrip() for line in done.stdout.rstrip().splitlines()]


def is_same(shown: list[str], printed: list[str]) -> bool:
    """Whether the page tells the truth, `...` included."""
    parts = [r"(?:.*\n)*?" if line == ANY else re.escape(f"{line}\n") for line in shown]
    return re.fullmatch("".join(parts), "".join(f"{line}\n" for line in printed)) is not None


def renewed(page: str, run: Callable[[str], list[str]]) -> str:
    """The page with what its commands print now; outputs that are still true stay as they are."""

    def renew(block: re.Match[str]) -> str:
        again = (
            each if is_same(each.shown, now) else Typed(each.command, now)
            for each, now in ran(block)
        )
        return "```console\n" + "".join(each.text for each in again) + "```"

    def ran(block: re.Match[str]) -> Iterator[tuple[Typed, list[str]]]:
        for each in parse(block[1]):
            yield each, run(each.command)

    return BLOCK.sub(renew, page)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("pages", nargs="+", type=Path)
    given = parser.parse_args()
    stale = 0
    for page in given.pages:
        with tempfile.TemporaryDirectory() as folder:
            text = page.read_text()
            now = renewed(text, partial(typed_in, folder=Path(folder)))
        if now != text:
            stale += 1
            print(f"{page}: {'brought up to date' if given.write else 'differs'}")
            if given.write:
                page.write_text(now)
    return 0 if given.write else int(stale > 0)


if __name__ == "__main__":
    sys.exit(main())
