"""Learners: ways to better an adapter from trajectories; each is one file and one line here."""

from importlib import import_module

from hansa_client.learners.base import Choice, Chooser, Learner, Lesson, Trained

LEARNERS = {
    "success-sft": "hansa_client.learners.success_sft",
    "reward-weighted": "hansa_client.learners.reward_weighted",
    "dpo": "hansa_client.learners.dpo",
    "grpo": "hansa_client.learners.grpo",
}
"""Module of each learner by its name in spec.training.learner; imported late, for torch is slow."""


def get(name: str) -> Learner:
    """The learner of that name; the spec allows no other."""
    learner: Learner = import_module(LEARNERS[name]).train
    return learner


def chooser(name: str) -> Chooser:
    """How the learner of that name chooses from the experience."""
    choose: Chooser = import_module(LEARNERS[name]).choose
    return choose


__all__ = ["LEARNERS", "Choice", "Chooser", "Learner", "Lesson", "Trained", "chooser", "get"]
