"""A learner that a package brings: what it subclasses, and what is asked of what it gives back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hansa.api.plugin_fields import PluginOptions
from hansa.api.spec import Experience
from hansa.core.errors import PermanentError
from hansa.manifests import plugins
from hansa_client.experience.shards import Shard
from hansa_client.learners.base import Choice, Chooser, Learner, Trained, TrainingSet

if TYPE_CHECKING:
    from hansa_client.models.base_model import Base


class LearnerPlugin(plugins.LearnerFacts, ABC):
    """A way to better an adapter from trajectories, with the interface of the builtin ones.

    `self.options` has the options of the spec. Import torch inside the methods, so that
    `hansa validate` is quick. The same shards and the same lesson must give the same bytes.
    """

    @abstractmethod
    def choose(self, shards: Sequence[Shard], rules: Experience, round_: int) -> Choice:
        """What it wants of the silo's shards, under the rules of the experience, in a round."""

    @abstractmethod
    def train(
        self, base: Base, lesson: TrainingSet, progress: Callable[[int, int], None]
    ) -> Trained:
        """A better adapter; the base model is left as it was."""


def make(name: str, options: PluginOptions | None) -> LearnerPlugin:
    """The learner of that name that a package brings, with its options checked."""
    plugin = plugins.make(plugins.LEARNER, name, options)
    if not isinstance(plugin, LearnerPlugin):
        raise _fault(name, f"is no {plugins.LEARNER.whole}")
    return plugin


def chooser(name: str, options: PluginOptions | None) -> Chooser:
    """How a package's learner chooses; a choice that cannot be trained on is refused."""
    plugin = make(name, options)

    def choose(shards: Sequence[Shard], rules: Experience, round_: int) -> Choice:
        choice = plugin.choose(shards, rules, round_)
        _check(choice, name)
        return choice

    return choose


def get(name: str, options: PluginOptions | None) -> Learner:
    """How a package's learner trains."""
    plugin = make(name, options)

    def train(base: Base, lesson: TrainingSet, progress: Callable[[int, int], None]) -> Trained:
        trained = plugin.train(base, lesson, progress)
        if not isinstance(trained, Trained):
            raise _fault(name, f"trained {type(trained).__name__}, expected Trained")
        return trained

    return train


def _check(choice: Choice, name: str) -> None:
    if not isinstance(choice, Choice):
        raise _fault(name, f"chose {type(choice).__name__}, expected Choice")
    count = len(choice.episodes)
    if choice.together < 1 or count % choice.together:
        raise _fault(name, f"chose {count} episodes of which {choice.together} are one example")
    if choice.weights and len(choice.weights) != count:
        raise _fault(name, f"chose {count} episodes and {len(choice.weights)} weights")


def _fault(name: str, what: str) -> PermanentError:
    return PermanentError(f"{plugins.LEARNER.field}: {name} {what}")
