"""The base class of learners, builtin or from packages, and checks of what they return."""

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
    """A way to train an adapter on trajectories.

    `self.options` has the options of the spec. Import torch inside the methods, so that
    `hansa validate` is fast. The same shards and training set must give the same bytes.
    """

    @abstractmethod
    def choose(self, shards: Sequence[Shard], rules: Experience, round_: int) -> Choice:
        """Choose from the silo's shards by `spec.experience`, in a round."""

    @abstractmethod
    def train(
        self, base: "Base", lesson: TrainingSet, progress: Callable[[int, int], None]
    ) -> Trained:
        """Train an adapter without changing the base model."""


def make(name: str, options: PluginOptions | None = None) -> LearnerPlugin:
    """The learner of that name, with its options checked."""
    plugin = plugins.make(plugins.LEARNER, name, options)
    if not isinstance(plugin, LearnerPlugin):
        raise _make_error(name, f"is no {plugins.LEARNER.whole}")
    return plugin


def get_chooser(name: str, options: PluginOptions | None = None) -> Chooser:
    """A learner's `choose`, with a check of what it returns."""
    plugin = make(name, options)

    def choose(shards: Sequence[Shard], rules: Experience, round_: int) -> Choice:
        choice = plugin.choose(shards, rules, round_)
        if not isinstance(choice, Choice):
            raise _make_error(name, f"chose {type(choice).__name__}, expected Choice")
        count = len(choice.episodes)
        if choice.together < 1 or count % choice.together:
            said = f"chose {count} episodes of which {choice.together} are one example"
            raise _make_error(name, said)
        if choice.weights and len(choice.weights) != count:
            raise _make_error(name, f"chose {count} episodes and {len(choice.weights)} weights")
        return choice

    return choose


def get(name: str, options: PluginOptions | None = None) -> Learner:
    """A learner's `train`, with a check of what it returns."""
    plugin = make(name, options)

    def train(base: "Base", lesson: TrainingSet, progress: Callable[[int, int], None]) -> Trained:
        trained = plugin.train(base, lesson, progress)
        if not isinstance(trained, Trained):
            raise _make_error(name, f"trained {type(trained).__name__}, expected Trained")
        return trained

    return train


def _make_error(name: str, what: str) -> PermanentError:
    return PermanentError(f"{plugins.LEARNER.field}: {name} {what}")
