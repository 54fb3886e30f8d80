"""What tests of endpoints play: how, with which adapters, and by which engine."""

from functools import partial

import numpy as np

from hansa.adapter.lora import Tensors
from hansa.api.assignment import Assignment
from hansa_client.endpoint.engine import open_decoder
from hansa_client.models import base_model, lora
from hansa_client.models.base_model import Base
from hansa_client.rollout import episodes, tasks
from hansa_client.rollout.episodes import Decoders, EpisodeJob, RolloutConfig

HOW = RolloutConfig(
    temperature=1.0,
    max_length=512,
    batch_episodes=4,
    round=1,
    source="exploration",
    max_new_tokens=16,
    max_broken=0.0,
)


def engine(assignment: Assignment, tensors: Tensors) -> Decoders:
    """Turns with an adapter by the assignment's endpoint."""
    assert assignment.endpoint
    folder = base_model.resolve(assignment.model.source)
    return partial(open_decoder, assignment, assignment.endpoint, tensors, folder)


def play(
    assignment: Assignment,
    base: Base,
    tensors: Tensors,
    by_endpoint: bool,
    how: RolloutConfig = HOW,
) -> episodes.Played:
    """Some episodes, by the endpoint or by torch."""
    world = tasks.make_world(assignment)
    jobs = [EpisodeJob(task, 0, seed) for seed, task in enumerate(world.tasks("train")[:6])]

    def make() -> tasks.World:
        return tasks.make_world(assignment)

    if by_endpoint:
        return episodes.play(base, make, jobs, how, decoders=engine(assignment, tensors))
    with lora.merge_adapter(base.model, assignment.adapter, tensors):
        return episodes.play(base, make, jobs, how)


def random_adapter(base: Base, assignment: Assignment, seed: int, size: float = 0.3) -> Tensors:
    """With the default size strong enough to change every answer."""
    draw = np.random.default_rng(seed)
    shapes = lora.shapes(base.model, assignment.adapter)
    return {
        name: (size * draw.standard_normal(shape)).astype(np.float32)
        for name, shape in shapes.items()
    }
