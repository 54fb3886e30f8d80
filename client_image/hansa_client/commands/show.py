"""Episodes on a terminal: what the world said, what the agent did, and how it ended.

Texts come from worlds and models, so nothing in them may steer the terminal.
"""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hansa.core.sanitize import sanitize
from hansa_worlds.base import Observation, Split, Task, World

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

    def __init__(self, console: "Console") -> None:
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


class Watched(World):
    """Wraps a world, so that a model's rollout is shown turn by turn as well."""

    name = "watched"

    def __init__(self, inner: World, screen: EpisodeScreen, who: str, *, echo: bool) -> None:
        self.inner = inner
        """The world that is played; scripted players ask this one."""
        self.options = inner.options
        self.max_turns = inner.max_turns
        self.screen = screen
        """Where it is shown."""
        self.actions_taken = 0
        self.fault: Exception | None = None
        """What the world raised, if it did: a rollout only counts such episodes."""
        self._who = who
        self._echo = echo
        self._task: Task | None = None
        self._said: list[dict[str, Any]] = []
        self._last = Observation("")

    def tasks(self, split: Split) -> Sequence[Task]:
        """The inner world's."""
        return self.inner.tasks(split)

    def start(self, task: Task) -> Observation:
        """Begin, and show the first observation."""
        observation = self.begin(task)
        self.show_first(observation)
        return observation

    def begin(self, task: Task) -> Observation:
        """Begin, and show nothing yet."""
        self._task = task
        self.inner.seed = self.seed
        return self._note_fault(lambda: self.inner.start(task))

    def show_first(self, observation: Observation) -> None:
        """Say who plays what, and show where it begins."""
        task = self._task.id if self._task else ""
        self.screen.show_title(f"{self.inner.name}, task {task}, played by {self._who}")
        self._show_observation(observation, {})

    def step(self, action: str) -> Observation:
        """Show the action, then what comes of it."""
        self.actions_taken += 1
        self.inner.is_cut = self.is_cut
        self._said.append({"role": "agent", "text": action})
        if self._echo:
            self.screen.show_agent(self.actions_taken, action)
        observation = self._note_fault(lambda: self.inner.step(action))
        return self._show_observation(observation, {"reward": observation.reward})

    @property
    def success(self) -> bool:
        """The inner world's."""
        return self.inner.success

    def close(self) -> None:
        """Close the inner world."""
        self.inner.close()

    def end(self, unless_done: str = "not done") -> None:
        """Show how it ended; an episode that is not done ended for another reason."""
        self.screen.show_end(
            success=self.success,
            turns=self.actions_taken,
            reward=self._last.reward,
            why="" if self._last.done else unless_done,
        )

    def record(self) -> dict[str, Any]:
        """The episode as plain data."""
        return {
            "task": self._task.id if self._task else None,
            "split": self._task.split if self._task else None,
            "success": self.success,
            "done": self._last.done,
            "reward": self._last.reward,
            "turns": self._said,
        }

    def _note_fault(self, act: Callable[[], Observation]) -> Observation:
        try:
            return act()
        except Exception as error:
            self.fault = error
            raise

    def _show_observation(self, observation: Observation, earned: dict[str, float]) -> Observation:
        self._last = observation
        self._said.append({"role": "user", "text": observation.text, **earned})
        self.screen.show_world(observation.text, observation.reward)
        return observation

    def _begin(self, task: Task) -> str:
        return self.inner._begin(task)

    def _act(self, action: str) -> Observation:
        return self.inner._act(action)
