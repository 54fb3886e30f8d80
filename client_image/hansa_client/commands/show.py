"""Episodes on a terminal: what the world said, what the agent did, and how it ended.

Texts come from worlds and models, so nothing in them may steer the terminal.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hansa.core.sanitize import sanitize

if TYPE_CHECKING:
    from rich.console import Console

_SAID = re.compile(r"(Thought|Action):")
_INDENT = "    "


def format_reward(value: float) -> str:
    """A reward without needless digits."""
    return f"{value:.4g}"


def format_prompt(turn: int) -> str:
    """The prompt before an action."""
    return f"{turn:>2}> "


class EpisodeScreen:
    """Prints one episode as it goes; a pipe gets the same words without colour."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def show_title(self, text: str) -> None:
        """What is played, and by whom."""
        self._line(sanitize(text).replace("\n", " "), "bold")
        self._line("")

    def show_world(self, text: str, reward: float = 0.0) -> None:
        """What the world says, and what the last action earned if it earned something."""
        for line in sanitize(text).strip("\n").split("\n"):
            self._line(_INDENT + line if line.strip() else "")
        if reward:
            self._line(f"{_INDENT}reward {format_reward(reward)}", "green" if reward > 0 else "red")
        self._line("")

    def show_agent(self, turn: int, text: str) -> None:
        """What the agent does; a thought is paler than an action."""
        lines = [line for line in sanitize(text).split("\n") if line.strip()] or ["(nothing)"]
        style = "bold cyan"
        for place, line in enumerate(lines):
            label = _SAID.match(line)
            if label:
                style = "dim" if label[1] == "Thought" else "bold cyan"
            self._line((_INDENT if place else format_prompt(turn)) + line, style)

    def show_end(self, *, success: bool, turns: int, reward: float, why: str = "") -> None:
        """The last line: success or failure."""
        count = f"{turns} turn" + "s" * (turns != 1)
        word = "success" if success else "failure"
        text = f"{why or word} after {count}, reward {format_reward(reward)}"
        self._line(text, "bold green" if success else "bold yellow" if why else "bold red")

    def show_note(self, text: str) -> None:
        """A word to the person, which is no part of the episode."""
        self._line(_INDENT + text, "yellow")

    def _line(self, text: str, style: str = "") -> None:
        from rich.text import Text

        self._console.print(Text(text, style), soft_wrap=True)
