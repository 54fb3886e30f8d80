"""How the updates of a round relate to one another and to the result.

Exact figures come from inner products of the terms B·A of each layer, in time quadratic in the
number of members. Where that takes long, they are estimated from random projections of the terms,
in linear time. The projections are seeded by the result, which no member knows beforehand: a member
that knew them could hide from them. The figures decide nothing; spec.aggregation.diagnostics turns
them off.
"""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from hansa.adapter.tensor_file import TensorFile
from hansa.api.bucket_documents import Diagnostics
from hansa_server import sketch
from hansa_server.factors import Term, compute_products, compute_singular_values, make_file_term
from hansa_server.merge import WORKERS, Parts
from hansa_server.merge_input import Array, MergeInput, Pair
from hansa_server.sketch import Projections

EXACT = 3 * 10**9
"""Multiplications up to which figures are exact in any case: a fraction of a second."""
ROUNDING = 1e-6
"""A mean shorter than this share of the longest update counts as zero: what fp32 leaves of updates
that cancel differs between processors."""


class Sums(NamedTuple):
    """Squared norms and inner products of changes of B·A, of one layer or of all."""

    norms: Array
    """Squared norm of each member's change."""
    along: Array
    """Inner product of each with the global change."""
    change: float
    """Squared norm of the global change."""
    missed: float
    """Squared distance of the result from the exact mean, the server's step taken."""
    wanted: float
    """Squared norm of that mean."""


def diagnose(
    task: MergeInput, trained: TensorFile, frozen: TensorFile | None, scale: float
) -> Diagnostics:
    """The figures of a round, from its updates and the two parts of its result."""
    result = (trained, frozen)
    with ThreadPoolExecutor(WORKERS) as pool:
        values = list(
            pool.map(lambda m: compute_singular_values(_list_result_terms(m, result)), task.modules)
        )

        def total(measure: Callable[[str], Sums]) -> Sums:
            layers = list(pool.map(measure, task.modules))
            return Sums(*(sum(parts) for parts in zip(*layers, strict=True)))

        if is_exact(task, result):
            sums = total(lambda module: compute_exact_sums(task, module, result))
        else:
            seed = b"".join(layer.tobytes() for layer in values)
            longest = max(max(make_file_term(task.start, module).size) for module in task.modules)
            projections = Projections(task.modules, longest, seed)
            sums = total(lambda module: estimate_sums(task, module, result, projections))
            if not all(np.isfinite(part).all() for part in sums):  # fp32 overflowed
                sums = total(lambda module: compute_exact_sums(task, module, result))
    rank = float(np.mean([compute_effective_rank(layer) for layer in values]))
    return _summarize(task, sums, scale, rank)


def is_exact(task: MergeInput, result: Parts) -> bool:
    """Whether the exact figures are cheap, or cheaper than estimates."""
    terms = [term for part in _list_terms(task, task.modules[0], result) for term in part]
    rank = sum(term.rank for term in terms)
    sizes = [make_file_term(task.start, module).size for module in task.modules]
    count = sketch.choose_columns(len(sizes))
    work = rank**2 * sum(out + width for out, width in sizes)
    projecting = 2 * rank * count * sum(out + width for out, width in sizes)
    comparing = (
        6 * rank * sum(math.prod(sketch.reduce_length(n, count) for n in size) for size in sizes)
    )
    return work <= max(EXACT, projecting + comparing)


def compute_exact_sums(task: MergeInput, module: str, result: Parts) -> Sums:
    """Every sum is a quadratic form of the terms' inner products."""
    members, start, made = _list_terms(task, module, result)
    inner = compute_products([*members, *start, *made])
    count = len(members)
    origin, whole = np.zeros(len(inner)), np.zeros(len(inner))
    origin[count : count + len(start)] = 1.0
    whole[count + len(start) :] = 1.0
    step = task.step
    wanted = (1.0 - step) * origin
    wanted[:count] += step * np.array(task.shares)
    change, changes = whole - origin, np.eye(count, len(inner)) - origin
    return Sums(
        norms=np.einsum("ki,ij,kj->k", changes, inner, changes, optimize=True),
        along=changes @ inner @ change,
        change=float(change @ inner @ change),
        missed=float((whole - wanted) @ inner @ (whole - wanted)),
        wanted=float(wanted @ inner @ wanted),
    )


@np.errstate(over="ignore", invalid="ignore")  # the caller checks the sums
def estimate_sums(task: MergeInput, module: str, result: Parts, projections: Projections) -> Sums:
    """The same sums from projections; only products of start, mean and change are computed."""
    members = [projections.project(update.file, module) for update in task.updates]
    stacked = _stack(members)
    weights = np.repeat(task.shares, [len(pair.a) for pair in members])
    mean: Array = (stacked.b * weights) @ stacked.a
    new = _multiply([projections.project(file, module) for file in result if file])
    if task.frozen:
        new -= _multiply([projections.project(task.frozen, module)])
    norms = np.array([_multiply_inner(pair.b.T @ pair.b, pair.a @ pair.a.T) for pair in members])
    start = np.zeros_like(new)
    if not task.is_untrained:
        start = _multiply([projections.project(task.start, module)])
        norms += _multiply_inner(start, start) - 2 * _project(members, stacked, start)
    change, step = new - start, task.step
    wanted = start + step * (mean - start)
    return Sums(
        norms=norms,
        along=_project(members, stacked, change) - _multiply_inner(start, change),
        change=_multiply_inner(change, change),
        missed=_multiply_inner(new - wanted, new - wanted),
        wanted=_multiply_inner(wanted, wanted),
    )


def _list_terms(
    task: MergeInput, module: str, result: Parts
) -> tuple[list[Term], list[Term], list[Term]]:
    """Terms of all members, of the start, and of the result less the old frozen part."""
    members = [make_file_term(update.file, module) for update in task.updates]
    start = [] if task.is_untrained else [make_file_term(task.start, module)]
    old = [make_file_term(task.frozen, module, -1.0)] if task.frozen else []
    return members, start, [*_list_result_terms(module, result), *old]


def _list_result_terms(module: str, result: Parts) -> list[Term]:
    return [make_file_term(file, module) for file in result if file]


def _stack(pairs: Sequence[Pair]) -> Pair:
    b = np.concatenate([pair.b for pair in pairs], axis=1)
    return Pair(np.concatenate([pair.a for pair in pairs]), b)


def _multiply(pairs: Sequence[Pair]) -> Array:
    """The sum of the pairs' products."""
    stacked = _stack(pairs)
    product: Array = stacked.b @ stacked.a
    return product


def _project(pairs: Sequence[Pair], stacked: Pair, matrix: Array) -> Array:
    """Inner product of each pair's product with a matrix."""
    summed = np.einsum("rn,rn->r", stacked.b.T @ matrix, stacked.a)
    edges = np.cumsum([0, *(len(pair.a) for pair in pairs)])[:-1]
    along: Array = np.add.reduceat(summed, edges)
    return along


def _multiply_inner(one: Array, other: Array) -> float:
    return float(np.einsum("ij,ij->", one, other))


def _summarize(task: MergeInput, sums: Sums, scale: float, rank: float) -> Diagnostics:
    names = [update.environment for update in task.updates]
    lengths, length = [_take_root(square) for square in sums.norms], _take_root(sums.change)
    total, wanted = sum(lengths), _take_root(sums.wanted)
    return Diagnostics(
        norm=scale * length,
        error=_divide(_take_root(sums.missed), wanted) if wanted > ROUNDING * max(lengths) else 0.0,
        effective_rank=rank,
        norms={name: scale * norm for name, norm in zip(names, lengths, strict=True)},
        cosine={
            name: _divide(float(along), norm * length)
            for name, along, norm in zip(names, sums.along, lengths, strict=True)
        },
        share={name: _divide(norm, total) for name, norm in zip(names, lengths, strict=True)},
    )


def compute_effective_rank(values: Array) -> float:
    """exp of the entropy of the singular values' shares: 1 to their number, 0 for none."""
    total = float(np.sum(values))
    if not total:
        return 0.0
    shares = values[values > 0] / total
    return float(np.exp(-np.sum(shares * np.log(shares))))


def _take_root(square: float) -> float:
    return math.sqrt(max(0.0, square))


def _divide(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
