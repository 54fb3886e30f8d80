"""A wrapper of a world that shows and records every turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hansa_client.commands.show import EpisodeScreen
from hansa_worlds.base import Observation, Split, Task, World


class Watched(World):
    """Wraps a world, so that a model's rollout is shown turn by turn as well."""

    name = "watched"

    def __init__(
        self, inner: World, screen: EpisodeScreen | None, who: str, *, echo: bool = True
    ) -> None:
        self.inner = inner
        """The world that is played; scripted players ask this one."""
        self.options = inner.options
        self.max_turns = inner.max_turns
        self.screen = screen
        """Where it is shown; None: nowhere."""
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
        if self.screen and self._task:
            task = self._task
            self.screen.show_title(f"{self.inner.name}, task {task.id}, played by {self._who}")
        self._show_observation(observation, {})

    def step(self, action: str) -> Observation:
        """Show the action, then what comes of it."""
        self.actions_taken += 1
        self.inner.is_cut = self.is_cut
        self._said.append({"role": "agent", "text": action})
        if self.screen and self._echo:
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
        if self.screen:
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
        if self.screen:
            self.screen.show_world(observation.text, observation.reward)
        return observation

    def _begin(self, task: Task) -> str:
        return self.inner._begin(task)

    def _act(self, action: str) -> Observation:
        return self.inner._act(action)
