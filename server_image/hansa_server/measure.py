"""Measuring adapters on disk: finite values, changed tensors, distance and rotation."""

import math

import numpy as np

from hansa.adapter import lora
from hansa.adapter.tensor_file import TensorFile
from hansa.api.strategies import Half
from hansa_server import elementwise
from hansa_server.elementwise import BLOCK, split_range


def is_finite(file: TensorFile) -> bool:
    """Whether every value is finite."""
    room = np.empty(BLOCK, np.float32)
    return all(
        elementwise.is_finite(file.values(name, begin, end, room))
        for name, entry in file.layout.items()
        for begin, end in split_range(math.prod(entry.shape), BLOCK)
    )


def find_changed_tensor(file: TensorFile, start: TensorFile, half: Half) -> str:
    """A tensor of the half that is not trained that differs from the start; empty: none."""
    mine, theirs = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)
    for name, entry in start.layout.items():
        if half in ("both", lora.side(name)):
            continue
        for begin, end in split_range(math.prod(entry.shape), BLOCK):
            values = file.values(name, begin, end, mine)
            if values.tobytes() != start.values(name, begin, end, theirs).tobytes():
                return name
    return ""


ALIGNED = 0.5
"""Minimum share of the trace of A·A0' in the sum of its singular values."""


@np.errstate(over="ignore", invalid="ignore")  # where fp32 overflows, float64 decides
def find_turned_layer(file: TensorFile, start: TensorFile) -> str:
    """A layer whose A is the start's with other signs, or rotated; empty: none.

    B·A stays the same when A is multiplied by any R and B by its inverse, so the change of the
    weights does not show it, but a mean of such factors with honest ones is meaningless. Training
    hardly rotates A: the trace of A·A0' is compared with its maximum over all rotations, the sum of
    the singular values. Where the cosine of A with A0 is large enough, that sum is not needed.
    """
    for module in lora.target_names(start.layout):
        name = lora.tensor_names(module).a
        a, origin = file.read(name), start.read(name)
        along = float(np.vdot(a, origin))
        if along > ALIGNED * float(np.linalg.norm(a)) * float(np.linalg.norm(origin)):
            continue
        shared = a.astype(np.float64) @ origin.T.astype(np.float64)
        most = float(np.linalg.svd(shared, compute_uv=False).sum())
        if most and float(np.trace(shared)) < ALIGNED * most:
            return module
    return ""


def measure_distance(file: TensorFile, start: TensorFile) -> float:
    """Frobenius norm of the difference over all tensors, in float64 against overflow."""
    total = 0.0
    room = np.empty(BLOCK, np.float32)
    for name, entry in start.layout.items():
        for begin, end in split_range(math.prod(entry.shape), BLOCK):
            change = file.values(name, begin, end, room).astype(np.float64)
            change -= start.values(name, begin, end, room)
            total += float(np.dot(change, change))
    return math.sqrt(total)
