"""success-sft: next-token loss on the agent's own tokens of kept trajectories, as in Fed-SE.

Of exploration it needs nothing: demonstrations alone are enough, and one episode of a task is, too.
"""

from collections.abc import Callable, Sequence

import torch

from hansa.api.spec import Experience
from hansa_client.experience import selection
from hansa_client.experience.shards import Shard
from hansa_client.learners import loop
from hansa_client.learners.base import Choice, Trained, TrainingSet
from hansa_client.learners.plugin import LearnerPlugin
from hansa_client.models.base_model import Base
from hansa_client.training.scoring import Scorer, count_agent_tokens
from hansa_client.trajectory import Episode


class SuccessSft(LearnerPlugin):
    """Every token of the agent counts alike."""

    def choose(self, shards: Sequence[Shard], rules: Experience, round_: int) -> Choice:
        """Successes of all rounds, or with `filter: none` everything."""

        def is_wanted(episode: Episode) -> bool:
            return episode.success or rules.filter == "none"

        return Choice(episodes=selection.choose(shards, rules, round_, is_wanted))

    def train(
        self, base: Base, lesson: TrainingSet, progress: Callable[[int, int], None]
    ) -> Trained:
        """Raise the likelihood of what the agent did."""
        return loop.train(base, lesson, progress, Imitation(lesson))


class Imitation(loop.Objective):
    """The mean negative log-likelihood of the agent's tokens."""

    def __init__(self, lesson: TrainingSet) -> None:
        self._sequences = lesson.sequences

    def size(self, step: Sequence[int]) -> float:
        """The agent's tokens."""
        return count_agent_tokens([self._sequences[index] for index in step])

    def loss(self, scorer: Scorer, part: Sequence[int]) -> torch.Tensor:
        """Summed over them."""
        return scorer.loss([self._sequences[index] for index in part])
