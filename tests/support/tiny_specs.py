"""Small federations for tests on a cluster."""

from typing import Any

TINY: dict[str, Any] = {
    "exploration": {"tasksPerRound": 2, "batchEpisodes": 4},
    "experience": {"demonstrations": 2, "thoughts": False},
    "training": {"epochs": 1, "learningRate": 5.0e-3, "maxLength": 256, "maxSteps": 1},
    "evaluation": {"tasks": 2},
}
"""Rounds as short as they can be."""


NO_IMAGE = {"name": "client", "image": "no-such-image:1", "imagePullPolicy": "Never"}
