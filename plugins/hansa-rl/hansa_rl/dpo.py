"""dpo: of two episodes of one task, make the successful one likelier than the failed one.

Of exploration it needs several episodes of a task (samplesPerTask 2 or more), some of which fail; a
demonstration of the task may stand in for the success. The reference is the start adapter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from hansa.api.spec import Experience
from hansa.manifests import plugins
from hansa_client.experience import selection
from hansa_client.experience.shards import Shard
from hansa_client.learners.base import Choice, Trained, TrainingSet
from hansa_client.learners.plugin import LearnerPlugin
from hansa_client.trajectory import Episode

if TYPE_CHECKING:
    from hansa_client.models.base_model import Base


class Dpo(LearnerPlugin):
    """Direct preference optimization (Rafailov and others, 2023)."""

    compares = True

    class Options(plugins.Options):
        """What stands in spec.training.options."""

        beta: Annotated[float, Field(gt=0, le=100)] = 0.1
        """How strongly preferences are held to the start adapter."""

    def choose(self, shards: Sequence[Shard], rules: Experience, round_: int) -> Choice:
        """Pairs of a success and a failure of one task; the rules hold for each side."""
        won = selection.choose(shards, rules, round_, lambda episode: episode.success)
        lost = selection.choose(shards, rules, round_, lambda episode: not episode.success)
        pairs = list(pair_episodes(won, lost))
        return Choice(episodes=[episode for pair in pairs for episode in pair], together=2)

    def train(
        self, base: Base, lesson: TrainingSet, progress: Callable[[int, int], None]
    ) -> Trained:
        """Widen the gap between the two of each pair, beyond the start adapter's own."""
        # torch takes seconds to import, and `hansa validate` does without
        from hansa_client.learners import loop
        from hansa_rl.preference import Preference

        return loop.train(base, lesson, progress, Preference(lesson, self.options.beta))


def pair_episodes(
    won: Sequence[Episode], lost: Sequence[Episode]
) -> Iterator[tuple[Episode, Episode]]:
    """Every episode of a task in at least one pair, and no pair twice before that."""
    for task in sorted({episode.task for episode in won} & {episode.task for episode in lost}):
        good = [episode for episode in won if episode.task == task]
        bad = [episode for episode in lost if episode.task == task]
        for index in range(max(len(good), len(bad))):
            yield good[index % len(good)], bad[index % len(bad)]
