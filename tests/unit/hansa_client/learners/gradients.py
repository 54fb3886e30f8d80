"""Trajectories, an adapter and a short form of gradients, which tests and golden values share."""

from collections.abc import Mapping

import numpy as np
import torch

from hansa.adapter import lora as adapter
from hansa.adapter.lora import Tensors
from hansa.api.spec import Adapter
from hansa_client.models import base_model, lora
from hansa_client.models.base_model import Base
from hansa_client.trajectory import Sequence

SHAPE = Adapter(rank=4)
TINY = "builtin:tiny"
PROJECTIONS = 16


def sequences(*lengths: int) -> list[Sequence]:
    drawn = np.random.default_rng(3)
    return [
        Sequence(drawn.integers(1, 40, size).tolist(), [place % 3 > 0 for place in range(size)])
        for size in lengths
    ]


SEQUENCES = sequences(7, 30, 3, 19, 19, 12)


def moved(base: Base) -> Tensors:
    """An adapter that has left its start: B is no longer zero."""
    made = adapter.init_adapter(lora.shapes(base.model, SHAPE), SHAPE.rank, 7)
    drawn = np.random.default_rng(1)
    return {n: a + 0.01 * drawn.standard_normal(a.shape, np.float32) for n, a in made.items()}


def model() -> tuple[Base, Tensors]:
    """The builtin model, and such an adapter."""
    base = base_model.load(TINY, base_model.resolve(TINY), 1)
    return base, moved(base)


def summary(gradients: Mapping[str, torch.Tensor]) -> dict[str, float | list[float]]:
    """The norm of one trajectory's gradient, and how far it goes in 16 random directions."""
    flat = np.concatenate(
        [gradients[name].detach().double().numpy().reshape(-1) for name in sorted(gradients)]
    )
    random = np.random.Generator(np.random.Philox(key=11))
    rows = [random.standard_normal(flat.size) / np.sqrt(flat.size) for _ in range(PROJECTIONS)]
    return {
        "norm": round(float(np.linalg.norm(flat)), 8),
        "projections": [round(float(row @ flat), 8) for row in rows],
    }
