"""spec.exploration and spec.experience as data: how trajectories are gathered and kept."""

from typing import Annotated, Literal

from pydantic import Field

from hansa.api.ownership import Owner
from hansa.core.model import Model

FileSource = Annotated[
    str,
    Field(
        pattern=r"^(s3://[a-z0-9][a-z0-9.-]+/([^\s*?$]*[^\s*?$/])|(path:)?[^\s:][^:]*)$",
        max_length=500,
    ),
]
"""One file: `s3://bucket/key`, or a path with or without `path:` before it.

A key goes into policies, where `*`, `?`, `$` or a slash at its end would open more than one object.
"""
DemonstrationCount = Annotated[int, Field(ge=0, le=100_000)]


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


class Experience(Model):
    """What an environment keeps and learns from."""

    demonstrations: DemonstrationCount = 40
    """Expert episodes that start the experience, as shard 0; of a file, at most this many."""
    demonstrations_from: Annotated[FileSource | None, Owner.SILO] = None
    """File in AgentGym's format to take them from, once: `s3://bucket/key` or a path."""
    thoughts: bool = True
    """Whether the world's expert writes `Thought: ... Action: ...`, or the bare action."""
    max_trajectories: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    """The newest trajectories kept for training; 0 keeps all, as in Fed-SE."""
    per_task: Annotated[int, Field(ge=0, le=100_000)] = 0
    """Most trajectories of one task, the newest, equal ones once; 0: all, as in Fed-SE."""
    recency: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of explored trajectories that each round of age leaves; 1: all, as in Fed-SE."""
    filter: Literal["success", "none"] = "success"
    """`success` trains on successful trajectories only; `none` on all of them (an ablation)."""
    circles: Literal["skip", "keep"] = "keep"
    """`skip`: of an explored success, actions that led back to an earlier state are not trained."""
    history: bool = True
    """Whether trajectories of earlier rounds are trained on again; demonstrations always are."""
