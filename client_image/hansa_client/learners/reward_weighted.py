"""reward-weighted: imitation in which each trajectory counts as its reward, as in AgentEvol.

Of exploration it needs a world whose rewards tell good from better: where every success earns the
same and every failure nothing, it is success-sft.
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


class RewardWeighted(LearnerPlugin):
    """Failures count, too: half a reward is half an example."""

    def choose(self, shards: Sequence[Shard], rules: Experience, round_: int) -> Choice:
        """Whatever earned something."""
        chosen = selection.choose(shards, rules, round_, lambda episode: weigh(episode) > 0)
        return Choice(episodes=chosen, weights=[weigh(episode) for episode in chosen])

    def train(
        self, base: Base, lesson: TrainingSet, progress: Callable[[int, int], None]
    ) -> Trained:
        """Raise the likelihood of what earned much more than that of what earned little."""
        return loop.train(base, lesson, progress, Weighted(lesson))


def weigh(episode: Episode) -> float:
    """The reward; a success that a file tells without one counts whole."""
    return max(episode.reward, 0.0) or float(episode.success)


class Weighted(loop.Objective):
    """The weighted mean of the negative log-likelihood of the agent's tokens."""

    def __init__(self, lesson: TrainingSet) -> None:
        self._sequences = lesson.sequences
        self._weights = lesson.weights
        pairs = zip(lesson.weights, lesson.sequences, strict=True)
        earned = sum(weight * count_agent_tokens([sequence]) for weight, sequence in pairs)
        self._mean = earned / max(1, count_agent_tokens(lesson.sequences))

    def size(self, step: Sequence[int]) -> float:
        """The agent's tokens, each as one counts on average.

        By the step's own weights a step of poor trajectories would pull as much as one of good.
        """
        return self._mean * count_agent_tokens([self._sequences[index] for index in step])

    def loss(self, scorer: Scorer, part: Sequence[int]) -> torch.Tensor:
        """Summed over them."""
        logprobs, rows = scorer.logprobs([self._sequences[index] for index in part])
        weights = scorer.tensor([self._weights[index] for index in part])
        return -(logprobs * weights[rows]).sum()
