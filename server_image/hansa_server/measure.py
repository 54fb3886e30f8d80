"""Adapters on disk, measured: are their values numbers, what has changed, how far and whither."""

import math

import numpy as np

from hansa.adapter import lora
from hansa.adapter.tensor_file import TensorFile
from hansa.api.aggregation import Half
from hansa_server import elementwise
from hansa_server.elementwise import BLOCK, blocks


def is_finite(file: TensorFile) -> bool:
    """Whether every value is a number."""
    room = np.empty(BLOCK, np.float32)
    return all(
        elementwise.is_finite(file.values(name, begin, end, room))
        for name, entry in file.layout.items()
        for begin, end in blocks(math.prod(entry.shape), BLOCK)
    )


def changed_half(file: TensorFile, start: TensorFile, half: Half) -> str:
    """A tensor of the half that is not trained whose bits are not the start's; none: empty."""
    mine, theirs = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)
    for name, entry in start.layout.items():
        if half in ("both", lora.side(name)):
            continue
        for begin, end in blocks(math.prod(entry.shape), BLOCK):
            values = file.values(name, begin, end, mine)
            if values.tobytes() != start.values(name, begin, end, theirs).tobytes():
                return name
    return ""


ALIGNED = 0.5
"""Part of what A has in common with the start's A, however turned, that it must have as it is."""


@np.errstate(over="ignore", invalid="ignore")  # fp32 has its bounds: float64 decides then
def turned(file: TensorFile, start: TensorFile) -> str:
    """A layer whose A is the start's with other signs, or rotated; none: empty.

    B·A stays the same when A is multiplied by any R and B by its inverse, so no look at the change
    of the weights finds it, but a mean of such factors with honest ones is no mean of anything.
    Training moves A by any length and hardly turns it: the part of A·A0' along its diagonal is
    compared with the most that a rotation could bring there, the sum of its singular values. Where
    the cosine of A with A0 is large enough, that sum need not be made.
    """
    for module in lora.target_names(start.layout):
        name = lora.names(module).a
        a, origin = file.read(name), start.read(name)
        along = float(np.vdot(a, origin))
        if along > ALIGNED * float(np.linalg.norm(a)) * float(np.linalg.norm(origin)):
            continue
        shared = a.astype(np.float64) @ origin.T.astype(np.float64)
        most = float(np.linalg.svd(shared, compute_uv=False).sum())
        if most and float(np.trace(shared)) < ALIGNED * most:
            return module
    return ""


def distance(file: TensorFile, start: TensorFile) -> float:
    """Frobenius norm of the difference over all tensors, both of finite values.

    Summed in float64, where the squares of any two finite fp32 values fit.
    """
    total = 0.0
    room = np.empty(BLOCK, np.float32)
    for name, entry in start.layout.items():
        for begin, end in blocks(math.prod(entry.shape), BLOCK):
            change = file.values(name, begin, end, room).astype(np.float64)
            change -= start.values(name, begin, end, room)
            total += float(np.dot(change, change))
    return math.sqrt(total)
