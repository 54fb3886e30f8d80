"""Learners: ways to better an adapter from trajectories; each is one file and one line here."""

from importlib import import_module

from hansa.api.plugin_fields import PluginOptions
from hansa.api.status import RoundSettings
from hansa.manifests import plugins
from hansa_client.learners import plugin
from hansa_client.learners.base import Choice, Chooser, Learner, Trained, TrainingSet

LEARNERS = {
    "success-sft": "hansa_client.learners.success_sft",
    "reward-weighted": "hansa_client.learners.reward_weighted",
}
"""Module of each learner by its name in spec.training.learner; imported late, for torch is slow."""


def get(name: str, options: PluginOptions | None = None) -> Learner:
    """The learner of that name; builtin names win over those of packages."""
    if name not in LEARNERS:
        return plugin.get(name, options)
    learner: Learner = import_module(LEARNERS[name]).train
    return learner


def chooser(name: str, options: PluginOptions | None = None) -> Chooser:
    """How the learner of that name chooses from the experience."""
    if name not in LEARNERS:
        return plugin.chooser(name, options)
    choose: Chooser = import_module(LEARNERS[name]).choose
    return choose


def check(settings: RoundSettings) -> None:
    """Refuse a learner that is not in this image, or settings that it cannot learn by."""
    name, options = settings.training.learner, settings.training.options
    if name not in LEARNERS:
        plugins.check_learner(plugin.make(name, options), settings)


__all__ = [
    "LEARNERS",
    "Choice",
    "Chooser",
    "Learner",
    "Trained",
    "TrainingSet",
    "check",
    "chooser",
    "get",
]
