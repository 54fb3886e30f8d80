"""Adapters on disk, measured: are their values numbers, what has changed, and how far."""

import math

import numpy as np

from hansa import adapter
from hansa.aggregation import Half
from hansa.tensorfile import TensorFile
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
        if half in ("both", adapter.side(name)):
            continue
        for begin, end in blocks(math.prod(entry.shape), BLOCK):
            values = file.values(name, begin, end, mine)
            if values.tobytes() != start.values(name, begin, end, theirs).tobytes():
                return name
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
