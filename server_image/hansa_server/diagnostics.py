"""How the updates of a round relate to one another and to what was made of them.

Exact figures follow from the inner products of the terms B·A of each layer, in work that grows with
the square of the number of members. Where that would take long, they are estimated from random
projections of the terms instead, in work that grows with their number. The projections follow from
the result, which no member knows beforehand: who knew them could hide from them. Nothing here
decides anything; spec.aggregation.diagnostics turns it off.
"""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from hansa.adapter.tensor_file import TensorFile
from hansa.api.diagnostics import Diagnostics
from hansa_server import sketch
from hansa_server.factors import Term, of_file, products, singular_values
from hansa_server.merge import WORKERS, Parts
from hansa_server.merge_input import Array, MergeInput, Pair
from hansa_server.sketch import Projections

EXACT = 3 * 10**9
"""Multiplications up to which figures are exact, whatever is cheaper: a fraction of a second."""
ROUNDING = 1e-6
"""A mean so many times shorter than the longest update is none: what fp32 leaves of updates that
undo each other differs between processors."""


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
        values = list(pool.map(lambda module: _values(module, result), task.modules))

        def total(measure: Callable[[str], Sums]) -> Sums:
            layers = list(pool.map(measure, task.modules))
            return Sums(*(sum(parts) for parts in zip(*layers, strict=True)))

        def exact(module: str) -> Sums:
            return exact_sums(task, module, result)

        if is_exact(task, result):
            sums = total(exact)
        else:
            seed = b"".join(layer.tobytes() for layer in values)
            projections = Projections(task.modules, _longest(task), seed)
            sums = total(lambda module: estimated_sums(task, module, result, projections))
            if not all(np.isfinite(part).all() for part in sums):  # fp32 has its bounds
                sums = total(exact)
    rank = float(np.mean([effective_rank(layer) for layer in values]))
    return _figures(task, sums, scale, rank)


def is_exact(task: MergeInput, result: Parts) -> bool:
    """Whether the exact figures are cheap, or cheaper than estimates."""
    terms = [term for part in _terms(task, task.modules[0], result) for term in part]
    rank = sum(term.rank for term in terms)
    sizes = [of_file(task.start, module).size for module in task.modules]
    count = sketch.columns(len(sizes))
    work = rank**2 * sum(out + width for out, width in sizes)
    projecting = 2 * rank * count * sum(out + width for out, width in sizes)
    comparing = 6 * rank * sum(math.prod(sketch.small(n, count) for n in size) for size in sizes)
    return work <= max(EXACT, projecting + comparing)


def exact_sums(task: MergeInput, module: str, result: Parts) -> Sums:
    """Every sum is a quadratic form of the terms' inner products."""
    members, start, made = _terms(task, module, result)
    inner = products([*members, *start, *made])
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


@np.errstate(over="ignore", invalid="ignore")  # who asked sees it in the sums
def estimated_sums(task: MergeInput, module: str, result: Parts, projections: Projections) -> Sums:
    """The same sums from small products; only those of the start, mean and change are made."""
    members = [projections.project(update.file, module) for update in task.updates]
    stacked = _stacked(members)
    weights = np.repeat(task.shares, [len(pair.a) for pair in members])
    mean: Array = (stacked.b * weights) @ stacked.a
    new = _product([projections.project(file, module) for file in result if file])
    if task.frozen:
        new -= _product([projections.project(task.frozen, module)])
    norms = np.array([_inner(pair.b.T @ pair.b, pair.a @ pair.a.T) for pair in members])
    start = np.zeros_like(new)
    if not task.is_untrained:
        start = _product([projections.project(task.start, module)])
        norms += _inner(start, start) - 2 * _along(members, stacked, start)
    change, step = new - start, task.step
    wanted = start + step * (mean - start)
    return Sums(
        norms=norms,
        along=_along(members, stacked, change) - _inner(start, change),
        change=_inner(change, change),
        missed=_inner(new - wanted, new - wanted),
        wanted=_inner(wanted, wanted),
    )


def _terms(
    task: MergeInput, module: str, result: Parts
) -> tuple[list[Term], list[Term], list[Term]]:
    """All members, the start, and the result with the old frozen part taken off again."""
    members = [of_file(update.file, module) for update in task.updates]
    start = [] if task.is_untrained else [of_file(task.start, module)]
    old = [of_file(task.frozen, module, -1.0)] if task.frozen else []
    return members, start, [*_made(module, result), *old]


def _made(module: str, result: Parts) -> list[Term]:
    return [of_file(file, module) for file in result if file]


def _values(module: str, result: Parts) -> Array:
    return singular_values(_made(module, result))


def _longest(task: MergeInput) -> int:
    return max(max(of_file(task.start, module).size) for module in task.modules)


def _stacked(pairs: Sequence[Pair]) -> Pair:
    b = np.concatenate([pair.b for pair in pairs], axis=1)
    return Pair(np.concatenate([pair.a for pair in pairs]), b)


def _product(pairs: Sequence[Pair]) -> Array:
    """The sum of the pairs' products."""
    stacked = _stacked(pairs)
    product: Array = stacked.b @ stacked.a
    return product


def _along(pairs: Sequence[Pair], stacked: Pair, matrix: Array) -> Array:
    """Inner product of each pair's product with a matrix."""
    summed = np.einsum("rn,rn->r", stacked.b.T @ matrix, stacked.a)
    edges = np.cumsum([0, *(len(pair.a) for pair in pairs)])[:-1]
    along: Array = np.add.reduceat(summed, edges)
    return along


def _inner(one: Array, other: Array) -> float:
    return float(np.einsum("ij,ij->", one, other))


def _figures(task: MergeInput, sums: Sums, scale: float, rank: float) -> Diagnostics:
    names = [update.environment for update in task.updates]
    lengths, length = [_root(square) for square in sums.norms], _root(sums.change)
    total, wanted = sum(lengths), _root(sums.wanted)
    return Diagnostics(
        norm=scale * length,
        error=_ratio(_root(sums.missed), wanted) if wanted > ROUNDING * max(lengths) else 0.0,
        effective_rank=rank,
        norms={name: scale * norm for name, norm in zip(names, lengths, strict=True)},
        cosine={
            name: _ratio(float(along), norm * length)
            for name, along, norm in zip(names, sums.along, lengths, strict=True)
        },
        share={name: _ratio(norm, total) for name, norm in zip(names, lengths, strict=True)},
    )


def effective_rank(values: Array) -> float:
    """exp of the entropy of the singular values' shares: 1 to their number, 0 for none."""
    total = float(np.sum(values))
    if not total:
        return 0.0
    shares = values[values > 0] / total
    return float(np.exp(-np.sum(shares * np.log(shares))))


def _root(square: float) -> float:
    return math.sqrt(max(0.0, square))


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
