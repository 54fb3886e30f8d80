"""Environments under OpenEnv's own server: their echo, as made by `openenv init`, and a guess.

Runs in OpenEnv's environment, which has nothing of ours but the example's guess.py beside it.
"""

from echo_env.models import EchoAction, EchoObservation
from echo_env.server.app import app as echo_of_one
from echo_env.server.echo_env_environment import EchoEnvironment
from fastapi import FastAPI
from guess import Guess, GuessAction, GuessObservation
from guess import app as example
from openenv.core.env_server.http_server import create_app


class Raising(Guess):
    """One that an action can make fail."""

    def step(self, action: GuessAction) -> GuessObservation:  # type: ignore[override]
        if action.guess == "raise":
            raise RuntimeError("no such guess")
        return super().step(action)


app = FastAPI()
app.mount("/one", echo_of_one)
app.mount("/echo", create_app(EchoEnvironment, EchoAction, EchoObservation, "echo", 64))
app.mount(
    "/guess", create_app(Raising, GuessAction, GuessObservation, "guess", max_concurrent_envs=64)
)
app.mount("/example", example)
