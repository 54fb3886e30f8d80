"""The loss of grpo: the clipped advantage of each token, and the divergence from the start."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from hansa_client.learners.base import TrainingSet
from hansa_client.training.scoring import Scorer, count_agent_tokens


class Advantage:
    """Mean over tokens of the clipped advantage's loss and the divergence from the start."""

    def __init__(self, lesson: TrainingSet, *, clip: float, kl_weight: float) -> None:
        self._sequences = lesson.sequences
        self._weights = lesson.weights
        self._clip = clip
        self._kl_weight = kl_weight
        self._room = lesson.training.micro_batch_tokens or lesson.training.batch_tokens
        self._reference: list[torch.Tensor] = []

    def begin(self, scorer: Scorer) -> None:
        """Note how likely each token is under the start adapter, which played them."""
        self._reference = scorer.reference_logprobs(self._sequences, self._room)

    def size(self, step: Sequence[int]) -> float:
        """The agent's tokens."""
        return count_agent_tokens([self._sequences[index] for index in step])

    def loss(self, scorer: Scorer, part: Sequence[int]) -> torch.Tensor:
        """Summed over them; the divergence is estimated without bias and never negative."""
        logprobs, rows = scorer.logprobs([self._sequences[index] for index in part])
        before = torch.cat([self._reference[index] for index in part])
        advantages = scorer.tensor([self._weights[index] for index in part])[rows]
        ratio = (logprobs - before).exp()
        clipped = ratio.clamp(1 - self._clip, 1 + self._clip)
        gained = torch.minimum(ratio * advantages, clipped * advantages)
        divergence = (before - logprobs).exp() - (before - logprobs) - 1
        return (self._kl_weight * divergence - gained).sum()
