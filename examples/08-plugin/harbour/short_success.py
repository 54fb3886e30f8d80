"""Learner `short-success`: imitates the shortest successes of each task, and no other.

Of exploration it needs nothing: demonstrations alone are enough.
"""

from typing import Annotated

from pydantic import Field

from hansa.manifests import plugins
from hansa_client.experience import selection
from hansa_client.learners.base import Choice
from hansa_client.learners.plugin import LearnerPlugin


class ShortSuccess(LearnerPlugin):
    """Of two ways to do a task, the one with fewer turns is worth learning."""

    class Options(plugins.Options):
        """What stands in spec.training.options."""

        per_task: Annotated[int, Field(ge=1, le=100)] = 1
        """Successes of a task that are imitated."""

    def choose(self, shards, rules, round_):
        """The shortest successes of each task; of equals the oldest."""
        won = selection.choose(shards, rules, round_, lambda episode: episode.success)
        kept = []
        for task in sorted({episode.task for episode in won}):
            of_task = [episode for episode in won if episode.task == task]
            of_task.sort(key=lambda episode: len(episode.turns))  # stable
            kept += of_task[: self.options.per_task]
        return Choice(episodes=kept)

    def train(self, base, lesson, progress):
        """By the loss of success-sft; torch is imported here, so that `hansa validate` is quick."""
        from hansa_client.learners import loop, success_sft

        return loop.train(base, lesson, progress, success_sft.Imitation(lesson))
