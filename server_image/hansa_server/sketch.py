"""Random projections of factors, which preserve the inner products of all B·A on average.

With Gaussian Ω and Ψ, (Ψᵀ·B)·(A·Ω) is linear in B·A, so sums and differences can be taken of the
projections. Inner products of projections have an error that shrinks with the number of columns of
all layers. Time is linear in the number of terms. A side is split into parts with one projection
for all, in a fraction of the time: trained factors are spread over a side, so it is as accurate.
"""

import hashlib
import math
from collections.abc import Sequence

import numpy as np

from hansa.adapter import lora
from hansa.adapter.tensor_file import Float32, TensorFile
from hansa_server.elementwise import ThreadBuffer
from hansa_server.merge_input import Pair

COLUMNS = 2048
"""Columns of the projections of all layers together: with few layers each has more."""
NARROW, WIDE = 16, 64
"""Minimum and maximum columns of one projection."""
PARTS = 8
"""Parts that a side is split into, where its length allows."""
_SHIFT = 17
"""Each layer uses rows of the drawn numbers from this many rows later on than the one before."""


def choose_columns(layers: int) -> int:
    """Columns of each projection of a model with this many layers."""
    wanted = NARROW * math.ceil(COLUMNS / layers / NARROW)
    return min(max(NARROW, wanted), WIDE)


def reduce_length(length: int, count: int) -> int:
    """Length of a side after projection; a short one is not projected."""
    return min(length, math.gcd(length, PARTS) * count)


class Projections:
    """The random matrices of every layer, the same for all terms."""

    def __init__(self, modules: Sequence[str], longest: int, seed: bytes) -> None:
        self._at = {module: _SHIFT * index for index, module in enumerate(modules)}
        self._columns = choose_columns(len(modules))
        random = np.random.default_rng(int.from_bytes(hashlib.sha256(seed).digest()))
        size = (2, longest + _SHIFT * len(modules), self._columns)
        drawn = random.standard_normal(size, dtype=np.float32)
        self._a, self._b = drawn / np.float32(math.sqrt(self._columns))

    def project(self, file: TensorFile, module: str) -> Pair:
        """The projected factors of a layer of an adapter."""
        names = lora.tensor_names(module)
        rank, width = file.layout[names.a].shape
        out = file.layout[names.b].shape[0]
        room = _ROOM.take(rank * max(width, out))
        a = file.values(names.a, 0, rank * width, room).reshape(rank, width)
        if reduce_length(width, self._columns) < width:
            parts = math.gcd(width, PARTS)
            a = a.reshape(rank * parts, -1) @ self._select_rows(self._a, module, width // parts)
        made = a.reshape(rank, -1).astype(np.float64)  # before the room is filled again
        b = file.values(names.b, 0, out * rank, room).reshape(out, rank)
        if reduce_length(out, self._columns) < out:
            parts = math.gcd(out, PARTS)
            b = self._select_rows(self._b, module, out // parts).T @ b.reshape(-1, parts * rank)
        return Pair(made, b.reshape(-1, rank).astype(np.float64))

    def _select_rows(self, drawn: Float32, module: str, count: int) -> Float32:
        return drawn[self._at[module] :][:count]


_ROOM = ThreadBuffer(np.float32)
