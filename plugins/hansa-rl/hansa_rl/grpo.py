"""grpo: make likelier what did better than other episodes of its task, and unlikelier the rest.

Of exploration it needs several episodes of a task (samplesPerTask 2 or more; 4 to 16 are usual) at
temperature 1, for it learns on policy, from this round alone: demonstrations and history are not
used. A task whose episodes all did equally well teaches nothing; such groups are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from hansa.api.spec import Experience
from hansa.manifests import plugins
from hansa_client.experience.shards import Shard
from hansa_client.learners.base import Choice, Trained, TrainingSet
from hansa_client.learners.plugin import LearnerPlugin
from hansa_client.trajectory import Episode

if TYPE_CHECKING:
    from hansa_client.models.base_model import Base

_EPSILON = 1e-4


class Grpo(LearnerPlugin):
    """Group relative policy optimization (DeepSeekMath, 2024)."""

    compares = True

    class Options(plugins.Options):
        """What stands in spec.training.options."""

        kl_weight: Annotated[float, Field(ge=0, le=100)] = 0.04
        """Weight of the divergence from the start adapter."""
        clip: Annotated[float, Field(gt=0, lt=1)] = 0.2
        """How far a token's probability ratio to the start adapter may be from 1."""

    def choose(self, shards: Sequence[Shard], rules: Experience, round_: int) -> Choice:
        """This round's groups whose rewards differ, each episode with its advantage."""
        played = [e for shard in shards if shard.header.round == round_ for e in shard.episodes]
        groups: dict[str, list[Episode]] = {}
        for episode in played:
            groups.setdefault(episode.task, []).append(episode)
        telling = {t: g for t, g in groups.items() if len({episode.reward for episode in g}) > 1}
        advantages = {
            t: iter(compute_advantages([e.reward for e in g])) for t, g in telling.items()
        }
        chosen = [episode for episode in played if episode.task in telling]
        return Choice(
            episodes=chosen,
            weights=[next(advantages[episode.task]) for episode in chosen],
            skipped=len(groups) - len(telling),
        )

    def train(
        self, base: Base, lesson: TrainingSet, progress: Callable[[int, int], None]
    ) -> Trained:
        """Follow the advantages, as far as the clip allows, and stay near the start adapter."""
        # torch takes seconds to import, and `hansa validate` does without
        from hansa_client.learners import loop
        from hansa_rl.advantage import Advantage

        options = self.options
        objective = Advantage(lesson, clip=options.clip, kl_weight=options.kl_weight)
        return loop.train(base, lesson, progress, objective)


def compute_advantages(rewards: Sequence[float]) -> list[float]:
    """How much better each did than the group, in the group's own spread."""
    values = np.asarray(rewards, dtype=np.float64)
    scaled: list[float] = ((values - values.mean()) / (values.std() + _EPSILON)).tolist()
    return scaled
