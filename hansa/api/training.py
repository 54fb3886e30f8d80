"""spec.training as data: how an environment makes its adapter better from its experience."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from hansa.api import learners
from hansa.api.plugin_fields import (
    PluginName,
    PluginOptions,
    check_options,
    described,
    known_options,
)
from hansa.core.model import Model


class Training(Model):
    """How an environment trains its adapter on its experience."""

    learner: Annotated[
        PluginName,
        Field(description=f"How an adapter becomes better. {described(learners.BUILTIN)}"),
    ] = "success-sft"
    options: Annotated[
        PluginOptions | None, Field(json_schema_extra=known_options(learners.BUILTIN))
    ] = None
    """Settings of this learner alone; those of a package it checks itself."""
    epochs: Annotated[int, Field(ge=1, le=100)] = 2
    """Passes over the kept trajectories in a round."""
    learning_rate: Annotated[float, Field(gt=0, le=1)] = 5.0e-5
    """Peak learning rate of AdamW; falls to zero within the round by a cosine."""
    max_length: Annotated[int, Field(ge=16, le=131_072)] = 4096
    """Most tokens of a trajectory that are played and trained on."""
    batch_tokens: Annotated[int, Field(ge=16, le=10_000_000)] = 8192
    """Tokens in one optimizer step, padding included."""
    micro_batch_tokens: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    """Tokens of one forward pass, of which a step adds up several; 0: a step's, while they fit."""
    gradient_checkpointing: bool = False
    """Whether activations are computed again instead of kept; `builtin:` models never need it."""
    max_steps: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """Most optimizer steps in a round, so that rounds stay even; 0: no limit."""
    optimizer_state: Literal["fresh", "keep"] = "fresh"
    """`keep`: AdamW's moments continue from the last round's, stored with the silo's experience."""
    proximal: Annotated[float, Field(ge=0, le=1000)] = 0.0
    """FedProx: how strongly training is held to the start adapter; 0: not at all."""
    cpu_threads: Annotated[int, Field(ge=1, le=256)] = 1
    """Threads of a client on a CPU; results depend on it, so it is never taken from the machine."""

    @model_validator(mode="after")
    def _options_fit(self) -> Self:
        check_options(self.learner, self.options, learners.BUILTIN)
        return self

    def check_exploration(
        self,
        tasks_per_round: int,
        samples_per_task: int,
        filter_: str,
        *,
        compares: bool = False,
    ) -> None:
        """Refuse an exploration or a filter from which the learner could not learn.

        `compares`: whether the learner, one of a package, compares episodes of one task.
        """
        if not learners.entry(self.learner).is_filtered and filter_ != "success":
            raise ValueError(
                f"experience.filter: got {filter_}, expected success "
                f"(training.learner {self.learner} chooses by itself; the filter is success-sft's)"
            )
        if not compares:
            return
        why = f"training.learner {self.learner} compares episodes of one task"
        if tasks_per_round < 1:
            raise ValueError(f"exploration.tasksPerRound: got 0, expected 1 or more ({why})")
        if samples_per_task < 2:
            raise ValueError(f"exploration.samplesPerTask: got 1, expected 2 or more ({why})")
