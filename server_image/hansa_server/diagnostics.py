"""How the updates of a round relate to one another and to what was made of them.

Everything follows from the inner products of the terms B·A of each layer, which are made from the
factors: the work grows with the square of the number of members, and spec.aggregation.diagnostics
turns it off. Nothing here decides anything.
"""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from hansa.manifest import Diagnostics
from hansa.tensorfile import TensorFile
from hansa_server.factors import Term, of_file, products, singular_values
from hansa_server.merge import WORKERS
from hansa_server.task import Array, Task


def diagnose(
    task: Task, trained: TensorFile, frozen: TensorFile | None, scale: float
) -> Diagnostics:
    """The figures of a round, from its updates and the two parts of its result."""

    def layer(module: str) -> tuple[Array, float]:
        rank = effective_rank(singular_values(_result(module, trained, frozen)))
        return products(_terms(task, module, trained, frozen)), rank

    with ThreadPoolExecutor(WORKERS) as pool:
        layers = list(pool.map(layer, task.modules))
    inner = np.sum([layer_products for layer_products, _ in layers], axis=0)
    return _figures(task, inner * scale**2, float(np.mean([rank for _, rank in layers])))


def _terms(task: Task, module: str, trained: TensorFile, frozen: TensorFile | None) -> list[Term]:
    """All members, the start, and the result with the old frozen part taken off again."""
    members = [of_file(update.file, module) for update in task.updates]
    old = [of_file(task.frozen, module, -1.0)] if task.frozen else []
    return [*members, of_file(task.start, module), *_result(module, trained, frozen), *old]


def _result(module: str, trained: TensorFile, frozen: TensorFile | None) -> list[Term]:
    return [of_file(file, module) for file in (trained, frozen) if file]


def _figures(task: Task, inner: Array, rank: float) -> Diagnostics:
    """Every figure is a quadratic form of the inner products."""
    count = len(task.updates)
    start = np.zeros(len(inner))
    start[count] = 1.0
    result = np.zeros(len(inner))
    result[count + 1 :] = 1.0
    step = task.step
    wanted = (1.0 - step) * start
    wanted[:count] += step * np.array(task.shares)
    change = result - start
    changes = np.eye(count, len(inner)) - start
    norms = [_norm(row, inner) for row in changes]
    length = _norm(change, inner)
    names = [update.environment for update in task.updates]
    total = sum(norms)
    return Diagnostics(
        norm=length,
        error=_ratio(_norm(result - wanted, inner), _norm(wanted, inner)),
        effective_rank=rank,
        norms=dict(zip(names, norms, strict=True)),
        cosine={
            name: _ratio(float(row @ inner @ change), norm * length)
            for name, row, norm in zip(names, changes, norms, strict=True)
        },
        share={name: _ratio(norm, total) for name, norm in zip(names, norms, strict=True)},
    )


def effective_rank(values: Array) -> float:
    """exp of the entropy of the singular values' shares: 1 to their number, 0 for none."""
    total = float(np.sum(values))
    if not total:
        return 0.0
    shares = values[values > 0] / total
    return float(np.exp(-np.sum(shares * np.log(shares))))


def _norm(form: Array, inner: Array) -> float:
    return math.sqrt(max(0.0, float(form @ inner @ form)))


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
