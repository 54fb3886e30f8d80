"""spec.exploration as data: how an environment plays to gather new trajectories."""

from typing import Annotated, Literal

from pydantic import Field

from hansa.core.model import Model


class Exploration(Model):
    """How an environment plays with the global adapter to gather new trajectories."""

    tasks_per_round: Annotated[int, Field(ge=0, le=100_000)] = 64
    """Training tasks played in each round; 0 explores nothing (FedIT's way)."""
    samples_per_task: Annotated[int, Field(ge=1, le=64)] = 1
    """Episodes played of each task."""
    temperature: Annotated[float, Field(gt=0, le=5)] = 1.0
    """Sampling temperature while exploring."""
    batch_episodes: Annotated[int, Field(ge=1, le=4096)] = 64
    """Episodes played at the same time, as one batch."""
    max_new_tokens: Annotated[int, Field(ge=1, le=8192)] = 256
    """Most tokens of one turn, explored or evaluated; a longer one is cut there."""
    stop: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=100)]], Field(max_length=8)
    ] = Field(default_factory=list)
    """Texts that end a turn as soon as they are written, beside the model's own end of turn."""
    engine: Literal["auto", "torch", "openai"] = "auto"
    """What generates turns, explored or evaluated: `torch` is the client itself, `openai` each
    silo's own endpoint; `auto` the endpoint where a silo has one, else `torch`."""
    max_broken_episodes: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Share of episodes in which the world or the endpoint may fail; those are dropped. With more
    the Job fails."""
