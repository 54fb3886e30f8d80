"""Learners: ways to better an adapter from trajectories; each is one file and one line here."""

from importlib import import_module

from hansa_client.learners.base import Learner, Lesson, Trained

LEARNERS = {"success-sft": "hansa_client.learners.success_sft"}
"""Module of each learner by its name in spec.training.learner; imported late, for torch is slow."""


def get(name: str) -> Learner:
    """The learner of that name; the spec allows no other."""
    learner: Learner = import_module(LEARNERS[name]).train
    return learner


__all__ = ["LEARNERS", "Learner", "Lesson", "Trained", "get"]
