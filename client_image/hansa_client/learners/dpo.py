"""dpo: of two episodes of one task, make the successful one likelier than the failed one.

Of exploration it needs several episodes of a task (samplesPerTask 2 or more), some of which fail; a
demonstration of the task may stand in for the success. The reference is the start adapter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch.nn.functional import logsigmoid

from hansa.spec import Experience
from hansa_client.experience import selection
from hansa_client.experience.shards import Shard
from hansa_client.learners import loop
from hansa_client.learners.base import Choice, Lesson, Trained
from hansa_client.models.base_model import Base
from hansa_client.training.scoring import Scorer
from hansa_client.trajectory import Episode


def choose(shards: Sequence[Shard], rules: Experience, round_: int) -> Choice:
    """Pairs of a success and a failure of one task, side by side; the rules hold for each side."""
    won = selection.choose(shards, rules, round_, lambda episode: episode.success)
    lost = selection.choose(shards, rules, round_, lambda episode: not episode.success)
    pairs = list(paired(won, lost))
    return Choice(episodes=[episode for pair in pairs for episode in pair], together=2)


def paired(won: Sequence[Episode], lost: Sequence[Episode]) -> Iterator[tuple[Episode, Episode]]:
    """Every episode of a task in at least one pair, and no pair twice before that."""
    for task in sorted({episode.task for episode in won} & {episode.task for episode in lost}):
        good = [episode for episode in won if episode.task == task]
        bad = [episode for episode in lost if episode.task == task]
        for index in range(max(len(good), len(bad))):
            yield good[index % len(good)], bad[index % len(bad)]


def train(base: Base, lesson: Lesson, progress: Callable[[int, int], None]) -> Trained:
    """Widen the gap between the two of each pair, beyond the start adapter's own."""
    return loop.train(base, lesson, progress, Preference(lesson))


class Preference:
    """The mean over pairs of -log sigmoid(beta x the gap's growth since the start)."""

    def __init__(self, lesson: Lesson) -> None:
        self._sequences = lesson.sequences
        self._beta = lesson.training.beta
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
