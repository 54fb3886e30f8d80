"""spec.training as data: how an environment makes its adapter better from its experience."""

from typing import Annotated, Literal, get_args

from pydantic import Field

from hansa.api.plugin_fields import PluginName, PluginOptions, check_options
from hansa.core.model import Model

Learner = Literal[
    "success-sft",
    "reward-weighted",
]
BUILTIN: tuple[str, ...] = get_args(Learner)
"""Names that no package can take."""


class Training(Model):
    """How an environment trains its adapter on its experience."""

    learner: Annotated[
        PluginName,
        Field(
            description="`success-sft` imitates successes (Fed-SE), `reward-weighted` is "
            f"AgentEvol's. Builtin: {', '.join(BUILTIN)}. Others are of packages."
        ),
    ] = "success-sft"
    options: PluginOptions | None = None
    """For a learner of a package: settings of its own, which it checks itself."""
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
    """`keep`: AdamW's moments go on from the last round's, stored with the silo's experience."""
    proximal: Annotated[float, Field(ge=0, le=1000)] = 0.0
    """FedProx: how strongly training is held to the start adapter; 0: not at all."""
    cpu_threads: Annotated[int, Field(ge=1, le=256)] = 1
    """Threads of a client on a CPU; results depend on it, so it is never taken from the machine."""

    def check_options(self) -> None:
        """Refuse options that nobody reads; what a package's are, only the package can tell."""
        check_options("training", "learner", self.learner, self.options, BUILTIN)

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
        if self.learner != "success-sft" and filter_ != "success":
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
