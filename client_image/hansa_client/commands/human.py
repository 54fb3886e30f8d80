"""A person at the keyboard as a player: lines are actions, `?` asks, Ctrl-D leaves."""

from __future__ import annotations

import io
import sys
from contextlib import suppress

from hansa_client.commands.show import format_prompt
from hansa_client.commands.watched import Watched
from hansa_worlds.base import Task
from hansa_worlds.errors import NoPlayer

MOST_LISTED = 40
"""Legal actions that `?` shows; a shop has hundreds."""


def play(world: Watched, task: Task, *, data_on_stdout: bool) -> None:
    """Play until the end, or until the person leaves."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")  # a pipe may carry any bytes
    with suppress(ImportError):  # gives input() editing and history, where it is installed
        import readline  # noqa: F401
    observation = world.start(task)
    _show_note(world, "Write an action; ? lists what there is, Ctrl-D leaves.")
    while not observation.done:
        line = _ask(format_prompt(world.actions_taken + 1), data_on_stdout)
        if line is None:
            break
        if line == "?":
            _show_note(world, _list_actions(world))
        elif line:
            observation = world.step(line)
    world.end(unless_done="you left")


def is_typing() -> bool:
    """Whether stdin is a terminal, which echoes what is typed."""
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


def _show_note(world: Watched, text: str) -> None:
    if world.screen:
        world.screen.show_note(text)


def _list_actions(world: Watched) -> str:
    try:
        moves = world.inner.legal()
    except NoPlayer as error:
        return f"{error}; its rules say what there is"
    more = f", and {len(moves) - MOST_LISTED} more" if len(moves) > MOST_LISTED else ""
    return ", ".join(moves[:MOST_LISTED]) + more
