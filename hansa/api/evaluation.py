"""How adapters are measured on held-out tasks, and what happens when a new one does worse."""

from typing import Annotated, Literal

from pydantic import Field

from hansa.core.model import Model


class Evaluation(Model):
    """How the global adapter is measured on held-out tasks."""

    every_rounds: Annotated[int, Field(ge=1, le=1000)] = 1
    """Evaluates the adapters of every n-th round; the base and the last adapter always are."""
    tasks: Annotated[int, Field(ge=1, le=100_000)] = 100
    """Held-out tasks played by each environment, at most as many as its world has."""
    samples_per_task: Annotated[int, Field(ge=1, le=64)] = 1
    """Episodes played of each task; intervals are clustered by task, whose episodes are alike."""
    temperature: Annotated[float, Field(ge=0, le=5)] = 1.0
    """Sampling temperature; 0 plays greedily."""
    validation_tasks: Annotated[int, Field(ge=0, le=100_000)] | None = None
    """Other held-out tasks, by which the best is chosen; absent: like `tasks` with a guard,
    and none without."""
    own_update: bool = False
    """Whether each environment also measures its own update, before it is merged."""
    greedy: bool = False
    """Whether it plays the tasks greedily, too: sampling measures sharpness as well as skill."""
    alone: bool = False
    """Whether each silo also evolves alone after the last round, to say what joining brought it."""

    def is_due(self, round_: int) -> bool:
        """Whether the adapter of a round is evaluated by the round that starts from it."""
        return round_ % self.every_rounds == 0

    def count_validation_tasks(self, *, guarded: bool) -> int:
        """Validation tasks to play: what is decided by the reported tasks is no longer held out."""
        if self.validation_tasks is None:
            return self.tasks if guarded else 0
        return self.validation_tasks


class Guard(Model):
    """What happens when a new global adapter does worse than the best one so far."""

    max_drop: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Success on validation tasks that may be lost; 0.1 is ten points."""
    max_violations: Annotated[float, Field(ge=0, le=1)] | None = None
    """How far the share of a probe's episodes that break a rule may rise above the base's; 0.05 is
    five points; absent: it is only reported."""
    max_forgetting: Annotated[float, Field(ge=0, le=1000)] | None = None
    """Nats per token by which a probe's texts may become less likely; absent: only reported."""
    scope: Literal["mean", "environment"] = "mean"
    """Judges the mean, or each environment separately; one alone can act once per 5 rounds."""
    action: Literal["rollback", "pause", "none"] = "rollback"
    """`rollback` continues from the best adapter with half the server step; `pause` then waits."""

    @property
    def acts(self) -> bool:
        """Whether it does anything."""
        return self.action != "none"
