"""grpo: make likelier what did better than other episodes of its task, and unlikelier the rest.

Of exploration it needs several episodes of a task (samplesPerTask 2 or more; 4 to 16 are usual) at
temperature 1, for it learns on policy, from this round alone: demonstrations and history are not
used. A task whose episodes all did equally well teaches nothing; such groups are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from hansa.spec import Experience
from hansa_client.experience.shards import Shard
from hansa_client.learners import loop
from hansa_client.learners.base import Choice, Lesson, Trained
from hansa_client.models.base_model import Base
from hansa_client.training.scoring import Scorer, agent_tokens
from hansa_client.trajectory import Episode

_EPSILON = 1e-4


def choose(shards: Sequence[Shard], rules: Experience, round_: int) -> Choice:
    """This round's groups whose rewards differ, each episode with its advantage."""
    played = [e for shard in shards if shard.header.round == round_ for e in shard.episodes]
    groups: dict[str, list[Episode]] = {}
    for episode in played:
        groups.setdefault(episode.task, []).append(episode)
    telling = {t: g for t, g in groups.items() if len({episode.reward for episode in g}) > 1}
    advantages = {task: iter(advantage([e.reward for e in g])) for task, g in telling.items()}
    chosen = [episode for episode in played if episode.task in telling]
    return Choice(
        episodes=chosen,
        weights=[next(advantages[episode.task]) for episode in chosen],
        skipped=len(groups) - len(telling),
    )


def advantage(rewards: Sequence[float]) -> list[float]:
    """How much better each did than the group, in the group's own spread."""
    values = np.asarray(rewards, dtype=np.float64)
    scaled: list[float] = ((values - values.mean()) / (values.std() + _EPSILON)).tolist()
    return scaled


def train(base: Base, lesson: Lesson, progress: Callable[[int, int], None]) -> Trained:
    """Follow the advantages, as far as the clip allows, and stay near the start adapter."""
    return loop.train(base, lesson, progress, Advantage(lesson))


class Advantage:
    """Mean over tokens of the clipped advantage's loss and the divergence from the start."""

    def __init__(self, lesson: Lesson) -> None:
        self._sequences = lesson.sequences
        self._weights = lesson.weights
        self._clip = lesson.training.clip
        self._divergence = lesson.training.kl_weight
        self._room = lesson.training.micro_batch_tokens or lesson.training.batch_tokens
        self._reference: list[torch.Tensor] = []

    def begin(self, scorer: Scorer) -> None:
        """Note how likely each token is under the start adapter, which played them."""
        self._reference = scorer.reference_logprobs(self._sequences, self._room)

    def size(self, step: Sequence[int]) -> float:
        """The agent's tokens."""
        return agent_tokens([self._sequences[index] for index in step])

    def loss(self, scorer: Scorer, part: Sequence[int]) -> torch.Tensor:
        """Summed over them; the divergence is estimated without bias and never negative."""
        logprobs, rows = scorer.logprobs([self._sequences[index] for index in part])
        before = torch.cat([self._reference[index] for index in part])
        advantages = scorer.tensor([self._weights[index] for index in part])[rows]
        ratio = (logprobs - before).exp()
        clipped = ratio.clamp(1 - self._clip, 1 + self._clip)
        gained = torch.minimum(ratio * advantages, clipped * advantages)
        apart = (before - logprobs).exp() - (before - logprobs) - 1
        return (self._divergence * apart - gained).sum()
