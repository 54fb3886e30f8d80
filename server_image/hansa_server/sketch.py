"""Factors made small by random projections, which keep the inner products of all B·A on average.

With Gaussian Ω and Ψ, (Ψᵀ·B)·(A·Ω) is linear in B·A: sums and differences of terms are those of
their small products, and an inner product of two is that of the terms themselves, give or take an
error that shrinks with the columns of all layers. The work for a term does not depend on how many
others there are. A side is cut into parts that are projected alike: as good for what is spread over
the side, as trained factors are, in a fraction of the work.
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
"""Columns that the projections of all layers have together: with few layers each has more."""
NARROW, WIDE = 16, 64
"""Columns of one projection, at least and at most."""
PARTS = 8
"""Parts that a side is cut into, where its length allows."""
_SHIFT = 17
"""Each layer begins so many rows later in the numbers drawn: its matrices are its own."""


def columns(layers: int) -> int:
    """Columns of each projection of a model with so many layers."""
    wanted = NARROW * math.ceil(COLUMNS / layers / NARROW)
    return min(max(NARROW, wanted), WIDE)


def small(length: int, count: int) -> int:
    """Length of a side once it is projected; one that is short stays as it is."""
    return min(length, math.gcd(length, PARTS) * count)


class Projections:
    """The random matrices of every layer, the same for all terms."""

    def __init__(self, modules: Sequence[str], longest: int, seed: bytes) -> None:
        self._at = {module: _SHIFT * index for index, module in enumerate(modules)}
        self._columns = columns(len(modules))
        random = np.random.default_rng(int.from_bytes(hashlib.sha256(seed).digest()))
        size = (2, longest + _SHIFT * len(modules), self._columns)
        drawn = random.standard_normal(size, dtype=np.float32)
        self._a, self._b = drawn / np.float32(math.sqrt(self._columns))

    def project(self, file: TensorFile, module: str) -> Pair:
        """The small factors of a layer of an adapter."""
        names = lora.names(module)
        rank, width = file.layout[names.a].shape
        out = file.layout[names.b].shape[0]
        room = _ROOM.take(rank * max(width, out))
        a = file.values(names.a, 0, rank * width, room).reshape(rank, width)
        if small(width, self._columns) < width:
            parts = math.gcd(width, PARTS)
            a = a.reshape(rank * parts, -1) @ self._rows(self._a, module, width // parts)
        made = a.reshape(rank, -1).astype(np.float64)  # before the room is filled again
        b = file.values(names.b, 0, out * rank, room).reshape(out, rank)
        if small(out, self._columns) < out:
            parts = math.gcd(out, PARTS)
            b = self._rows(self._b, module, out // parts).T @ b.reshape(-1, parts * rank)
        return Pair(made, b.reshape(-1, rank).astype(np.float64))

    def _rows(self, drawn: Float32, module: str, count: int) -> Float32:
        return drawn[self._at[module] :][:count]


_ROOM = ThreadBuffer(np.float32)
