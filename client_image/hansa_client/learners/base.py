"""What a learner is given and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from hansa.adapter import Tensors
from hansa.aggregation import Half
from hansa.spec import Adapter, Training
from hansa_client import batch, trajectory

if TYPE_CHECKING:
    from hansa_client.model import Base


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """Trajectories to learn from, and how."""

    sequences: Sequence[trajectory.Sequence]
    """Kept trajectories as tokens, in a fixed order; each has a token of the agent."""
    start: Tensors
    """The global adapter the round starts from."""
    frozen: Tensors = field(default_factory=dict)
    """The global adapter's frozen part, which belongs to the model while it trains."""
    half: Half = "both"
    """Which of the adapter's matrices are trained; the others stay as they are."""
    adapter: Adapter
    """The adapter's shape."""
    training: Training
    """Epochs, learning rate and batch size."""
    seed: int
    """Seed of the order of batches and of dropout."""

    def steps(self) -> list[list[int]]:
        """Optimizer steps as indexes into the sequences; the same whenever it is asked."""
        return batch.plan(
            [len(sequence) for sequence in self.sequences],
            batch_tokens=self.training.batch_tokens,
            epochs=self.training.epochs,
            max_steps=self.training.max_steps,
            seed=self.seed,
        )


@dataclass(frozen=True)
class Trained:
    """What a learner made."""

    tensors: Tensors
    """The new adapter."""
    loss: float
    """Mean loss per agent's token over the last epoch."""


class Learner(Protocol):
    """Trains an adapter and leaves the base model as it was."""

    def __call__(self, base: Base, lesson: Lesson, progress: Callable[[int, int], None]) -> Trained:
        """Train; `progress` is told the steps done and the steps to do."""
        ...
