"""spec.experience as data: what a silo keeps and learns from."""

from typing import Annotated, Literal

from pydantic import Field

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


class Experience(Model):
    """What an environment keeps and learns from."""

    demonstrations: DemonstrationCount = 40
    """Expert episodes that start the experience, as shard 0; of a file, at most this many."""
    demonstrations_from: FileSource | None = None
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
