"""Learners: ways to train an adapter on trajectories; their names are in hansa.api.learners."""

from hansa.api.learners import BUILTIN
from hansa.api.status import RoundSettings
from hansa.manifests import plugins
from hansa_client.learners.base import Choice as Choice
from hansa_client.learners.base import Trained as Trained
from hansa_client.learners.base import TrainingSet as TrainingSet
from hansa_client.learners.plugin import get as get
from hansa_client.learners.plugin import get_chooser as get_chooser
from hansa_client.learners.plugin import make


def check(settings: RoundSettings) -> None:
    """Refuse a learner that is not installed, or settings that it does not support."""
    name, options = settings.training.learner, settings.training.options
    if name not in BUILTIN:  # the spec was checked by the table, and torch is slow to import
        plugins.check_learner(make(name, options), settings)
