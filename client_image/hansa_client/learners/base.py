"""What a learner is given and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from hansa.adapter.lora import Tensors
from hansa.api.aggregation import Half
from hansa.api.spec import Adapter, Experience, Training
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
    """Episodes that a learner wants of the experience, in a fixed order."""

    episodes: list[Episode]
    """What to train on; those that belong together stand side by side."""
    weights: list[float] = field(default_factory=list)
    """What each counts, where they count differently: its reward, or its advantage."""
    together: int = 1
    """How many that stand side by side are one example: pairs are two."""
    skipped: int = 0
    """Groups of one task that taught nothing, since all their episodes did equally well."""

    def rendered(
        self, longest: int, *, first_only: bool = False
    ) -> tuple[list[trajectory.Sequence], list[float]]:
        """The episodes as tokens with their weights; an example without a token to learn goes.

        Each chat of an episode is an example; with `first_only`, and of episodes that are compared,
        only the first chats count: these alone begin with the same words.
        """
        made, whose = self._made(longest, first_only=first_only)
        kept = self._kept(made)
        weights = [self.weights[whose[i]] for i in kept] if self.weights else []
        return [made[i] for i in kept], weights

    def tasks(self, longest: int) -> list[str]:
        """The task of each episode whose first chat is rendered."""
        made, whose = self._made(longest, first_only=True)
        return [self.episodes[whose[i]].task for i in self._kept(made)]

    def _made(
        self, longest: int, *, first_only: bool
    ) -> tuple[list[trajectory.Sequence], list[int]]:
        """Chats as tokens, and the place of each one's episode."""
        chats = [trajectory.render_all(episode, longest) for episode in self.episodes]
        chats = [some[:1] for some in chats] if first_only or self.together > 1 else chats
        whose = [at for at, some in enumerate(chats) for _ in some]
        return [chat for some in chats for chat in some], whose

    def _kept(self, made: Sequence[trajectory.Sequence]) -> list[int]:
        size = self.together
        whole = [at for at in range(0, len(made), size) if all(map(len, made[at : at + size]))]
        return [at + place for at in whole for place in range(size)]


@dataclass(frozen=True, kw_only=True)
class TrainingSet:
    """Trajectories to learn from, and how."""

    sequences: Sequence[trajectory.Sequence]
    """Kept trajectories as tokens, in a fixed order; each has a token of the agent."""
    weights: Sequence[float] = ()
    """What each counts; none: all the same."""
    together: int = 1
    """Sequences side by side that are one example, and so share a step: pairs are two."""
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
    optimizer: State | None = None
    """The optimizer's state to go on from; none: a fresh one."""
    skipped: int = 0
    """Groups of episodes that taught nothing, and so are not here."""
    tasks: Sequence[str] = ()
    """The task of each sequence."""
    private: Protection | None = None
    """How single records are protected; none: not at all."""

    def steps(self) -> list[list[int]]:
        """Optimizer steps as indexes into the sequences; the same whenever it is asked."""
        size = self.together
        lengths = [len(sequence) for sequence in self.sequences]
        steps = batches.plan(
            [size * max(lengths[at : at + size]) for at in range(0, len(lengths), size)],
            batch_tokens=self.training.batch_tokens,
            epochs=self.training.epochs,
            max_steps=self.training.max_steps,
            seed=self.seed,
        )
        return [[size * unit + i for unit in step for i in range(size)] for step in steps]


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What a learner made."""

    tensors: Tensors
    """The new adapter."""
    loss: float
    """Mean loss over the last epoch, per token of the agent or, of pairs, per pair."""
    optimizer: State = field(default_factory=dict)
    """The optimizer's state after the last step."""
    micro_batch_tokens: int = 0
    """Tokens held at once after memory ran out; 0: it never did."""


class Learner(Protocol):
    """Trains an adapter and leaves the base model as it was."""

    def __call__(
        self, base: Base, lesson: TrainingSet, progress: Callable[[int, int], None]
    ) -> Trained:
        """Train; `progress` gets the steps done and the steps to do."""
        ...


Chooser = Callable[[Sequence[Shard], Experience, int], Choice]
"""What a learner wants of a silo's shards, under the rules of the experience, in a round."""
