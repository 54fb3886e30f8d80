"""Learners: ways to make an adapter better from trajectories; a new one is a file and a line here."""

from importlib import import_module

from hansa_client.learners.base import Learner, Lesson, Trained

LEARNERS = {"success-sft": "hansa_client.learners.success_sft"}
"""Module of each learner by its name in spec.training.learner; imported when used, for torch is slow."""


def get(name: str) -> Learner:
    """The learner of that name; the spec allows no other."""
    learner: Learner = import_module(LEARNERS[name]).train
    return learner


__all__ = ["LEARNERS", "Learner", "Lesson", "Trained", "get"]
