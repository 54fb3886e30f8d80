"""Sums of products B·A, kept as factors: stacked, compressed, compared, never multiplied out.

A sum of terms w·B·A is [w1·B1, w2·B2, ...]·[A1; A2; ...]. With roots Rb and Ra of two small
matrices, BᵀB = RbᵀRb and A·Aᵀ = RaᵀRa, its singular values are those of Rb·Raᵀ = U·S·Vᵀ, and its
best factors of a rank are B·(Raᵀ·V·S^-½) and (S^-½·Uᵀ·Rb)·A: sums over the terms again. So all that
is held of many members are those small matrices. A QR of B would give the same roots, ten times
slower; what the squares cost is 1e-8 of the largest singular value, less than fp32 can hold.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hansa import adapter
from hansa.tensorfile import TensorFile
from hansa_server.elementwise import blocks
from hansa_server.task import Array, Pair

BUDGET = 2**22
"""Values of all terms that are held at a time: 32 MiB."""
NEGLIGIBLE = 1e-9
"""Singular values below this share of the largest are rounding, and count as zero."""


@dataclass(frozen=True, kw_only=True)
class Term:
    """One product w·B·A of a layer, read as it is needed."""

    rank: int
    """Columns of B and rows of A."""
    size: tuple[int, int]
    """Rows of B and columns of A."""
    rows: Callable[[int, int], Array]
    """Some rows of w·B."""
    columns: Callable[[int, int], Array]
    """Some columns of A."""


def of_file(file: TensorFile, module: str, weight: float = 1.0) -> Term:
    """A layer of an adapter."""
    names = adapter.names(module)
    rank, width = file.layout[names.a].shape
    return Term(
        rank=rank,
        size=(file.layout[names.b].shape[0], width),
        rows=lambda begin, end: weight * file.rows(names.b, begin, end).astype(np.float64),
        columns=lambda begin, end: file.columns(names.a, begin, end).astype(np.float64),
    )


def of_pair(pair: Pair, weight: float = 1.0) -> Term:
    """A product whose factors are in memory."""
    return Term(
        rank=len(pair.a),
        size=(len(pair.b), pair.a.shape[1]),
        rows=lambda begin, end: weight * pair.b[begin:end],
        columns=lambda begin, end: pair.a[:, begin:end],
    )


def difference(term: Term, other: Pair, weight: float) -> Term:
    """weight·(B - B')·(A - A') of a term and a pair of the same rank."""
    return Term(
        rank=term.rank,
        size=term.size,
        rows=lambda begin, end: weight * (term.rows(begin, end) - other.b[begin:end]),
        columns=lambda begin, end: term.columns(begin, end) - other.a[:, begin:end],
    )


def stack(terms: Sequence[Term]) -> Pair:
    """The sum as one pair: exact, and of the rank of all terms together."""
    out, width = terms[0].size
    a = np.concatenate([term.columns(0, width) for term in terms])
    return Pair(a, np.concatenate([term.rows(0, out) for term in terms], axis=1))


class Squares(NamedTuple):
    """Squared Frobenius norms of what a compression was given and of what it left out."""

    whole: float = 0.0
    """Of the sum."""
    lost: float = 0.0
    """Of what a smaller rank could not hold."""


def compress(terms: Sequence[Term], rank: int) -> tuple[Pair, Squares]:
    """The best approximation of the sum by a pair of that rank, and how good it is.

    The singular values are shared evenly between the factors. A direction that the sum does not
    have is zero in both.
    """
    out, width = terms[0].size
    inner_a, inner_b = _inner(terms)
    ra, rb = root(inner_a), root(inner_b)
    u, s, vt = np.linalg.svd(rb @ ra.T, full_matrices=False)
    kept = min(rank, int(np.sum(s > NEGLIGIBLE * s[0])))
    spread = np.sqrt(s[:kept])
    left = (ra.T @ vt[:kept].T) / spread
    right = (u[:, :kept].T @ rb) / spread[:, None]
    a, b = np.zeros((rank, width)), np.zeros((out, rank))
    at = 0
    for term in terms:
        part = slice(at, at + term.rank)
        a[:kept] += right[:, part] @ term.columns(0, width)
        b[:, :kept] += term.rows(0, out) @ left[part]
        at += term.rank
    return _with_fixed_signs(a, b), Squares(_squared(s), _squared(s[kept:]))


def _squared(values: Array) -> float:
    return float(np.sum(values**2))


def singular_values(terms: Sequence[Term]) -> Array:
    """Singular values of the sum, the largest first."""
    inner_a, inner_b = _inner(terms)
    core = root(inner_b) @ root(inner_a).T
    return np.asarray(np.linalg.svd(core, compute_uv=False), dtype=np.float64)


def products(terms: Sequence[Term]) -> Array:
    """Inner product of every term with every other: <Bi·Ai, Bj·Aj>."""
    inner_a, inner_b = _inner(terms)
    inner_a *= inner_b
    edges = np.cumsum([0, *(term.rank for term in terms)])[:-1]
    summed: Array = np.add.reduceat(np.add.reduceat(inner_a, edges, axis=0), edges, axis=1)
    return summed


def root(inner: Array) -> Array:
    """R with RᵀR = inner, for an inner that may be singular: members can be equal, or zero."""
    values, vectors = np.linalg.eigh(inner)
    scaled: Array = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    return scaled


def _inner(terms: Sequence[Term]) -> tuple[Array, Array]:
    """A·Aᵀ and BᵀB of the stacked factors, from blocks."""
    out, width = terms[0].size
    rank = sum(term.rank for term in terms)
    inner_a, inner_b = np.zeros((rank, rank)), np.zeros((rank, rank))
    for columns in _column_blocks(terms, width):
        inner_a += columns @ columns.T
    for rows in _row_blocks(terms, out):
        inner_b += rows.T @ rows
    return inner_a, inner_b


def _row_blocks(terms: Sequence[Term], out: int) -> Iterator[Array]:
    for begin, end in blocks(out, _block(terms)):
        yield np.concatenate([term.rows(begin, end) for term in terms], axis=1)


def _column_blocks(terms: Sequence[Term], width: int) -> Iterator[Array]:
    for begin, end in blocks(width, _block(terms)):
        yield np.concatenate([term.columns(begin, end) for term in terms])


def _block(terms: Sequence[Term]) -> int:
    rank = sum(term.rank for term in terms)
    return max(64, BUDGET // rank)


def _with_fixed_signs(a: Array, b: Array) -> Pair:
    """Rows of A with their largest value positive: singular vectors may come with either sign."""
    largest = a[np.arange(len(a)), np.argmax(np.abs(a), axis=1)]
    signs = np.where(largest < 0, -1.0, 1.0)
    return Pair(a * signs[:, None], b * signs)
