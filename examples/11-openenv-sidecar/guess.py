"""Guess a number from 1 to 9: an environment under OpenEnv's own server, for many sessions."""

import random
from typing import Any

from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State


class GuessAction(Action):
    guess: str


class GuessObservation(Observation):
    said: str = ""
    left: int = 0


class Guess(Environment):
    """The answers say where to look; the seed decides the number."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._state = State(step_count=0)
        self.number = self.left = 0

    def reset(self, seed: int | None = None, tries: int = 5, **_: Any) -> GuessObservation:
        self._state = State(step_count=0)
        self.number = random.Random(seed).randint(1, 9)
        self.left = tries
        return GuessObservation(said="Guess a number from 1 to 9.", left=self.left)

    def step(self, action: GuessAction) -> GuessObservation:  # type: ignore[override]
        self._state.step_count += 1
        self.left -= 1
        right = action.guess == str(self.number)
        known = action.guess.isdecimal() and action.guess.isascii() and len(action.guess) < 4
        said = "What?" if not known else "Higher." if int(action.guess) < self.number else "Lower."
        return GuessObservation(
            said="Right." if right else said,
            left=self.left,
            reward=1.0 if right else 0.5,
            done=right or self.left == 0,
        )

    @property
    def state(self) -> State:
        return self._state


app = create_app(Guess, GuessAction, GuessObservation, "guess", max_concurrent_envs=64)
