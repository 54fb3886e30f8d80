"""A person at the keyboard as a player: lines are actions, `?` asks, Ctrl-D leaves."""

from __future__ import annotations

import io
import sys
from contextlib import suppress

from hansa_client.commands.show import prompt
from hansa_client.commands.watched import Watched
from hansa_worlds.base import Task
from hansa_worlds.errors import NoPlayer

MOST_LISTED = 40
"""Legal actions that `?` shows; a shop has hundreds."""


def play(world: Watched, task: Task, *, data_on_stdout: bool) -> None:
    """Play until the end, or until the person leaves."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")  # any byte may come through a pipe
    with suppress(ImportError):  # gives input() its editing and history, where there is one
        import readline  # noqa: F401
    observation = world.start(task)
    _tell(world, "Write an action; ? lists what there is, Ctrl-D leaves.")
    while not observation.done:
        line = _ask(prompt(world.actions_taken + 1), data_on_stdout)
        if line is None:
            break
        if line == "?":
            _tell(world, _choices(world))
        elif line:
            observation = world.step(line)
    world.end(unless_done="you left")


def is_typing() -> bool:
    """Whether a keyboard is there: what is typed shows by itself, what is piped does not."""
    return sys.stdin.isatty()


def _ask(before: str, data_on_stdout: bool) -> str | None:
    if not is_typing():
        line = sys.stdin.readline()
        return line.strip() if line else None
    try:
        if not data_on_stdout:
            return input(before).strip()
        print(before, end="", file=sys.stderr, flush=True)
        return input().strip()
    except EOFError:
        print(file=sys.stderr)  # Ctrl-D leaves the cursor behind the prompt
        return None


def _tell(world: Watched, text: str) -> None:
    if world.screen:
        world.screen.aside(text)


def _choices(world: Watched) -> str:
    try:
        moves = world.inner.legal()
    except NoPlayer as error:
        return f"{error}; its rules say what there is"
    more = f", and {len(moves) - MOST_LISTED} more" if len(moves) > MOST_LISTED else ""
    return ", ".join(moves[:MOST_LISTED]) + more
