"""Sums of products B·A as factors: stacked, compressed and compared without computing B·A.

A sum of terms w·B·A is [w1·B1, w2·B2, ...]·[A1; A2; ...]. With roots Rb and Ra of two small
matrices, BᵀB = RbᵀRb and A·Aᵀ = RaᵀRa, its singular values are those of Rb·Raᵀ = U·S·Vᵀ, and its
best factors of a rank are B·(Raᵀ·V·S^-½) and (S^-½·Uᵀ·Rb)·A: sums over the terms again. So memory
holds only those small matrices. A QR of B gives the same roots, ten times slower; the squares cost
a precision of 1e-8 of the largest singular value, which is below that of fp32.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Literal, NamedTuple

import numpy as np

from hansa.adapter import lora
from hansa.adapter.tensor_file import Float32, TensorFile
from hansa_server.elementwise import ThreadBuffer, split_range
from hansa_server.merge_input import Array, Pair

Values = Array | Float32
BUDGET = 2**21
"""Values of all terms that are held at a time: 16 MiB, twice."""
SIDE = 256
"""Rows that are copied side by side at a time."""
NEGLIGIBLE = 1e-9
"""Singular values below this share of the largest are rounding errors, and count as zero."""
ROUNDING = 1e-14
"""The same for their squares."""


@dataclass(frozen=True, kw_only=True)
class Term:
    """One product w·B·A of a layer, read as it is needed."""

    rank: int
    """Columns of B and rows of A."""
    size: tuple[int, int]
    """Rows of B and columns of A."""
    weight: float = 1.0
    """What it is multiplied with."""
    rows: Callable[[int, int, Float32 | None], Values]
    """Rows of B from one index to another; a file reads them into the buffer, if one is given."""
    columns: Callable[[int, int, Float32 | None], Values]
    """The same for columns of A."""


def make_file_term(file: TensorFile, module: str, weight: float = 1.0) -> Term:
    """A layer of an adapter."""
    names = lora.tensor_names(module)
    rank, width = file.layout[names.a].shape
    return Term(
        rank=rank,
        size=(file.layout[names.b].shape[0], width),
        weight=weight,
        rows=partial(file.rows, names.b),
        columns=partial(file.columns, names.a),
    )


def make_pair_term(pair: Pair, weight: float = 1.0) -> Term:
    """A product whose factors are in memory."""
    return Term(
        rank=len(pair.a),
        size=(len(pair.b), pair.a.shape[1]),
        weight=weight,
        rows=lambda begin, end, _: pair.b[begin:end],
        columns=lambda begin, end, _: pair.a[:, begin:end],
    )


def make_difference_term(term: Term, other: Pair, weight: float) -> Term:
    """weight·(B - B')·(A - A') of a term and a pair of the same rank."""
    return Term(
        rank=term.rank,
        size=term.size,
        weight=weight,
        rows=lambda begin, end, room: term.rows(begin, end, room) - other.b[begin:end],
        columns=lambda begin, end, room: term.columns(begin, end, room) - other.a[:, begin:end],
    )


def stack(terms: Sequence[Term]) -> Pair:
    """The sum as one pair: exact, and of the rank of all terms together."""
    out, width = terms[0].size
    rank = sum(term.rank for term in terms)
    a, b = np.empty((rank, width)), np.empty((out, rank))
    _fill_columns(terms, 0, width, a)
    _fill_rows(terms, 0, out, b)
    b *= _repeat_weights(terms)
    return Pair(a, b)


class Squares(NamedTuple):
    """Squared Frobenius norms before a compression, and of its error."""

    whole: float = 0.0
    """Norm of the sum."""
    lost: float = 0.0
    """Norm of the error."""


def compress(terms: Sequence[Term], rank: int) -> tuple[Pair, Squares]:
    """The best approximation of the sum by a pair of that rank, and how good it is.

    Each factor gets the square roots of the singular values. A direction that the sum does not
    have is zero in both.
    """
    out, width = terms[0].size
    inner_a, inner_b = _compute_inner(terms)
    ra, rb = compute_root(inner_a), compute_root(inner_b)
    u, s, vt, lost = find_largest(rb @ ra.T, rank)
    kept = int(np.sum(s > NEGLIGIBLE * s[0]))
    spread = np.sqrt(s[:kept])
    left = _repeat_weights(terms)[:, None] * (ra.T @ vt[:kept].T) / spread
    right = (u[:, :kept].T @ rb) / spread[:, None]
    a, b = np.zeros((rank, width)), np.zeros((out, rank))
    for begin, end, columns in _iterate_blocks(terms, "A"):
        np.matmul(right, columns, out=a[:kept, begin:end])
    for begin, end, rows in _iterate_blocks(terms, "B"):
        b[begin:end, :kept] = rows @ left
    whole = max(float(np.einsum("ij,ij->", inner_a, inner_b)), 0.0)
    return _fix_signs(a, b), Squares(whole, min(lost, whole))


def find_largest(core: Array, rank: int) -> tuple[Array, Array, Array, float]:
    """U, S and Vᵀ of the largest singular values, and the sum of the squares of the others.

    The eigenvectors of core·coreᵀ take a third of the time of an SVD. The precision that squaring
    costs is restored by an SVD of the few that are kept.
    """
    if 2 * rank >= len(core):
        u, s, vt = np.linalg.svd(core, full_matrices=False)
        return u[:, :rank], s[:rank], vt[:rank], float(np.sum(s[rank:] ** 2))
    squares, vectors = np.linalg.eigh(core @ core.T)
    top, rest = vectors[:, -rank:], squares[:-rank]
    u, s, vt = np.linalg.svd(top.T @ core, full_matrices=False)
    lost = float(np.sum(rest[rest > ROUNDING * squares[-1]]))
    return top @ u, s, vt, lost


def compute_singular_values(terms: Sequence[Term]) -> Array:
    """Singular values of the sum, the largest first."""
    inner_a, inner_b = _compute_inner(terms)
    core = compute_root(inner_b) @ compute_root(inner_a).T
    return np.asarray(np.linalg.svd(core, compute_uv=False), dtype=np.float64)


def compute_products(terms: Sequence[Term]) -> Array:
    """Inner product of every term with every other: <Bi·Ai, Bj·Aj>."""
    inner_a, inner_b = _compute_inner(terms)
    inner_a *= inner_b
    edges = np.cumsum([0, *(term.rank for term in terms)])[:-1]
    summed: Array = np.add.reduceat(np.add.reduceat(inner_a, edges, axis=0), edges, axis=1)
    return summed


def compute_root(inner: Array) -> Array:
    """R with RᵀR = inner, for an inner that may be singular: members can be equal, or zero."""
    try:
        return np.asarray(np.linalg.cholesky(inner).T, dtype=np.float64)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(inner)
        return np.asarray(np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T, dtype=np.float64)


def _compute_inner(terms: Sequence[Term]) -> tuple[Array, Array]:
    """A·Aᵀ and BᵀB of the stacked factors, from blocks."""
    rank = sum(term.rank for term in terms)
    inner_a, inner_b = np.zeros((rank, rank)), np.zeros((rank, rank))
    for _, _, columns in _iterate_blocks(terms, "A"):
        inner_a += columns @ columns.T
    for _, _, rows in _iterate_blocks(terms, "B"):
        inner_b += rows.T @ rows
    weights = _repeat_weights(terms)
    inner_b *= weights
    inner_b *= weights[:, None]
    return inner_a, inner_b


def _iterate_blocks(
    terms: Sequence[Term], side: Literal["A", "B"]
) -> Iterator[tuple[int, int, Array]]:
    """Columns of all A below one another, or rows of all B side by side, some at a time."""
    rank, (out, width) = sum(term.rank for term in terms), terms[0].size
    for begin, end in split_range(width if side == "A" else out, max(64, BUDGET // rank)):
        shape = (rank, end - begin) if side == "A" else (end - begin, rank)
        stacked = _STACK.take(rank * (end - begin)).reshape(shape)
        (_fill_columns if side == "A" else _fill_rows)(terms, begin, end, stacked)
        yield begin, end, stacked


def _fill_rows(terms: Sequence[Term], begin: int, end: int, into: Array) -> None:
    """Copy rows of all B side by side, without their weights, which are applied later for speed.

    Terms of equal rank are copied together, some rows at a time, which is twice as fast.
    """
    count, at = end - begin, 0
    for rank, run in groupby(terms, key=lambda term: term.rank):
        alike = list(run)
        below = _BELOW.take(len(alike) * count * rank).reshape(len(alike), count, rank)
        for term, part in zip(alike, below, strict=True):
            part[:] = term.rows(begin, end, _READ.take(count * rank))
        beside = into[:, at : at + len(alike) * rank].reshape(count, len(alike), rank)
        for first, behind in split_range(count, SIDE):
            beside[first:behind] = below[:, first:behind].transpose(1, 0, 2)
        at += len(alike) * rank


def _fill_columns(terms: Sequence[Term], begin: int, end: int, into: Array) -> None:
    """Copy columns of all A below one another."""
    at = 0
    for term in terms:
        room = _READ.take(term.rank * (end - begin))
        into[at : at + term.rank] = term.columns(begin, end, room)
        at += term.rank


def _repeat_weights(terms: Sequence[Term]) -> Array:
    """The weight of each column of the stacked B."""
    return np.repeat([term.weight for term in terms], [term.rank for term in terms])


def _fix_signs(a: Array, b: Array) -> Pair:
    """Make the largest value of each row of A positive: an SVD may return either sign."""
    largest = a[np.arange(len(a)), np.argmax(np.abs(a), axis=1)]
    signs = np.where(largest < 0, -1.0, 1.0)
    return Pair(a * signs[:, None], b * signs)


_READ, _BELOW, _STACK = ThreadBuffer(np.float32), ThreadBuffer(np.float64), ThreadBuffer(np.float64)
