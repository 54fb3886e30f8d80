"""The loss of dpo: how far each success has pulled ahead of its failure since the start."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.functional import logsigmoid

from hansa_client.learners.base import TrainingSet
from hansa_client.training.scoring import Scorer


class Preference:
    """The mean over pairs of -log sigmoid(beta x the gap's growth since the start)."""

    def __init__(self, lesson: TrainingSet, beta: float) -> None:
        self._sequences = lesson.sequences
        self._beta = beta
        self._room = lesson.training.micro_batch_tokens or lesson.training.batch_tokens
        self._reference: list[float] = []

    def begin(self, scorer: Scorer) -> None:
        """Note how likely the start adapter finds each trajectory."""
        references = scorer.reference_logprobs(self._sequences, self._room)
        self._reference = [float(logprobs.sum()) for logprobs in references]

    def size(self, step: Sequence[int]) -> float:
        """Pairs."""
        return len(step) / 2

    def loss(self, scorer: Scorer, part: Sequence[int]) -> torch.Tensor:
        """Summed over them."""
        logprobs, rows = scorer.logprobs([self._sequences[index] for index in part])
        total = torch.zeros(len(part), device=logprobs.device).index_add(0, rows, logprobs)
        grown = total - scorer.tensor([self._reference[index] for index in part])
        return -logsigmoid(self._beta * (grown[0::2] - grown[1::2])).sum()
