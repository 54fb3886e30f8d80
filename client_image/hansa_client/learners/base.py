"""The interface of learners."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hansa.adapter.lora import Tensors
from hansa.api.spec import Adapter, Experience, Training
from hansa.api.strategies import Half
from hansa_client import trajectory
from hansa_client.experience.shards import Shard
from hansa_client.training import batches
from hansa_client.trajectory import Episode

if TYPE_CHECKING:
    from hansa_client.learners.private import Protection
    from hansa_client.models.base_model import Base
    from hansa_client.training.adamw import State


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Episodes that a learner chooses from the experience, in a fixed order."""

    episodes: list[Episode]
    """The episodes; those of one example are adjacent."""
    weights: list[float] = field(default_factory=list)
    """The episodes' weights, for example rewards or advantages; empty: equal."""
    together: int = 1
    """Number of adjacent episodes that are one example: 2 for pairs."""
    skipped: int = 0
    """Groups of one task without a signal, since all their episodes did equally well."""

    def render(
        self, longest: int, *, first_only: bool = False
    ) -> tuple[list[trajectory.Sequence], list[float], list[str]]:
        """The episodes as tokens, their weights, and the task of each.

        Examples without a token to learn are left out. Each chat of an episode is an example; with
        `first_only`, and for episodes that are compared, only the first chat is used: only first
        chats begin with the same text.
        """
        size = self.together
        chats = [trajectory.render_all(episode, longest) for episode in self.episodes]
        chats = [some[:1] for some in chats] if first_only or size > 1 else chats
        made = [(chat, at) for at, some in enumerate(chats) for chat in some]
        examples = [made[at : at + size] for at in range(0, len(made), size)]
        whole = [each for each in examples if all(len(chat) for chat, _ in each)]
        sequences = [chat for example in whole for chat, _ in example]
        whose = [at for example in whole for _, at in example]
        weights = [self.weights[at] for at in whose] if self.weights else []
        return sequences, weights, [self.episodes[at].task for at in whose]


@dataclass(frozen=True, kw_only=True)
class TrainingSet:
    """Trajectories to train on, and how."""

    sequences: Sequence[trajectory.Sequence]
    """Chosen trajectories as tokens, in a fixed order; each has a token of the agent."""
    weights: Sequence[float] = ()
    """Their weights; empty: equal."""
    together: int = 1
    """Number of adjacent sequences that are one example, and share a step: 2 for pairs."""
    start: Tensors
    """The global adapter the round starts from."""
    frozen: Tensors = field(default_factory=dict)
    """The global adapter's frozen part, which is merged into the model for the training."""
    half: Half = "both"
    """Which of the adapter's matrices are trained; the others are frozen."""
    adapter: Adapter
    """The adapter's shape."""
    training: Training
    """Epochs, learning rate and batch size."""
    seed: int
    """Seed of the order of batches and of dropout."""
    optimizer: "State | None" = None
    """The optimizer's state to continue from; None: a fresh one."""
    skipped: int = 0
    """Groups of episodes without a signal, which are left out."""
    tasks: Sequence[str] = ()
    """The task of each sequence."""
    private: "Protection | None" = None
    """How the training is made differentially private; None: not at all."""

    def plan_steps(self) -> list[list[int]]:
        """Optimizer steps as indexes of sequences; each call returns the same."""
        size = self.together
        lengths = [len(sequence) for sequence in self.sequences]
        steps = batches.plan_steps(
            [size * max(lengths[at : at + size]) for at in range(0, len(lengths), size)],
            batch_tokens=self.training.batch_tokens,
            epochs=self.training.epochs,
            max_steps=self.training.max_steps,
            seed=self.seed,
        )
        return [[size * unit + i for unit in step for i in range(size)] for step in steps]


@dataclass(frozen=True, kw_only=True)
class Trained:
    """The result of a learner."""

    tensors: Tensors
    """The new adapter."""
    loss: float
    """Mean loss over the last epoch, per token of the agent or per pair."""
    optimizer: "State" = field(default_factory=dict)
    """The optimizer's state after the last step."""
    micro_batch_tokens: int = 0
    """Tokens of a micro-batch after memory ran out; 0: it never did."""


Learner = Callable[["Base", TrainingSet, Callable[[int, int], None]], Trained]
"""Trains an adapter without changing the base; calls back with the steps done and their number."""
Chooser = Callable[[Sequence[Shard], Experience, int], Choice]
"""Chooses from a silo's shards by `spec.experience`, in a round."""
