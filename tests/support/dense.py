"""Every strategy once more, from its formula on full matrices: slow, plain, and independent."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from hansa.adapter.lora import Tensors
from hansa.api.spec import Aggregation
from hansa.api.strategies import AdamOptions, KrumOptions, TrimmedMeanOptions

Array = NDArray[np.float64]


def wide(tensors: Tensors) -> dict[str, Array]:
    return {name: array.astype(np.float64) for name, array in tensors.items()}


def modules(tensors: Tensors) -> list[str]:
    ends = ".lora_A.weight"
    return sorted(name.removesuffix(ends) for name in tensors if name.endswith(ends))


def product(tensors: Tensors, module: str) -> Array:
    wide_ = wide(tensors)
    return wide_[f"{module}.lora_B.weight"] @ wide_[f"{module}.lora_A.weight"]


def vector(tensors: Tensors) -> Array:
    return np.concatenate([wide(tensors)[name].ravel() for name in sorted(tensors)])


def unvector(flat: Array, like: Tensors) -> dict[str, Array]:
    made, at = {}, 0
    for name in sorted(like):
        made[name] = flat[at : at + like[name].size].reshape(like[name].shape)
        at += like[name].size
    return made


def mean(start: Tensors, updates: Sequence[Tensors], weights: Sequence[float]) -> Array:
    return np.average([vector(update) for update in updates], axis=0, weights=weights)


FORMULAS: dict[str, Callable[[Array], Array]] = {
    "median": lambda rows: np.median(rows, axis=0),
}
"""Rules that need nothing but the members' values, a row each."""


def by_element(
    strategy: str, start: Tensors, updates: Sequence[Tensors], settings: Aggregation
) -> Array:
    """The aggregate of all values, before the server's step, for rules without memory."""
    rows = np.stack([vector(update) for update in updates])
    origin = vector(start)
    count = len(rows)
    if strategy in FORMULAS:
        return FORMULAS[strategy](rows)
    if strategy == "trimmed-mean":
        cut = int(settings.read(TrimmedMeanOptions).trim * count)
        return np.sort(rows, axis=0)[cut : count - cut].mean(axis=0)
    if strategy == "norm-balanced":
        changes = rows - origin
        lengths = np.linalg.norm(changes, axis=1)
        length = sorted(lengths)[(count - 1) // 2]
        return origin + np.mean(changes / lengths[:, None], axis=0) * length
    if strategy in ("krum", "multi-krum"):
        faulty = settings.read(KrumOptions).faulty
        kept = 1 if strategy == "krum" else count - faulty
        return rows[krum_order(rows, faulty)[:kept]].mean(axis=0)
    if strategy in ("ffa", "rolora"):
        half = settings.half(3)
        averaged = unvector(rows.mean(axis=0), start)
        for name in averaged:
            if f"lora_{half}" not in name:
                averaged[name] = wide(start)[name]
        return np.concatenate([averaged[name].ravel() for name in sorted(averaged)])
    return rows.mean(axis=0)


def krum_order(rows: Array, faulty: int) -> list[int]:
    """Indexes of the members, the one nearest to the others first."""
    scores = []
    for i, row in enumerate(rows):
        others = sorted(float(np.sum((row - o) ** 2)) for j, o in enumerate(rows) if j != i)
        scores.append((sum(others[: len(rows) - faulty - 2]), i))
    return [i for _, i in sorted(scores)]


def optimized(
    strategy: str, start: Tensors, rounds: Sequence[Sequence[Tensors]], settings: Aggregation
) -> Array:
    """Server optimizers over several rounds, each of which starts where the last one ended."""
    x = vector(start)
    options = settings.read(AdamOptions)
    beta, beta2 = options.momentum, options.second_momentum
    rate, tau = options.server_learning_rate, options.adaptivity
    m, v = np.zeros_like(x), np.full_like(x, tau**2)
    for updates in rounds:
        change = np.mean([vector(update) for update in updates], axis=0) - x
        if strategy == "fedavgm":
            m = beta * m + change
            x = x + settings.server_step * m
            continue
        m = change if strategy == "fedadagrad" else beta * m + (1 - beta) * change
        if strategy == "fedadagrad":
            v = v + change**2
        elif strategy == "fedadam":
            v = beta2 * v + (1 - beta2) * change**2
        else:
            v = v - (1 - beta2) * change**2 * np.sign(v - change**2)
        x = x + settings.server_step * rate * m / (np.sqrt(v) + tau)
    return x


def mean_product(
    start: Tensors, updates: Sequence[Tensors], module: str, step: float, weights: Sequence[float]
) -> Array:
    """old + step * (mean of B·A - old) of one layer."""
    exact = np.average([product(u, module) for u in updates], axis=0, weights=weights)
    old = product(start, module)
    return old + step * (exact - old)


def best(matrix: Array, rank: int) -> Array:
    """The best approximation of that rank."""
    u, s, vt = np.linalg.svd(matrix, full_matrices=False)
    return (u[:, :rank] * s[:rank]) @ vt[:rank]


def moments(own: Tensors, layer: str) -> Array:
    """The matrix that a member's moments of one layer's input stand for."""
    name = next(name for name in own if name.endswith(".vectors") and layer in name)
    stem, known = name.removesuffix("vectors"), wide(own)
    vectors, rest = known[name], known[stem + "rest"][0]
    flat = rest * (np.eye(vectors.shape[1]) - vectors.T @ vectors)
    made: Array = (vectors.T * known[stem + "values"]) @ vectors + flat
    return made


def regmean(
    updates: Sequence[Tensors], own: Sequence[Tensors], module: str, ridge: float = 1e-3
) -> Array:
    """Sum of B·A·G·(sum of all G)⁻¹ of one layer, each G divided by its trace."""
    layer = module.removeprefix("base_model.model.")
    matrices = [matrix / np.trace(matrix) for matrix in (moments(each, layer) for each in own)]
    width = len(matrices[0])
    flat = ridge * sum(np.trace(matrix) for matrix in matrices) / width / len(own) * np.eye(width)
    inverse = np.linalg.inv(sum(matrix + flat for matrix in matrices))
    pairs = zip(updates, matrices, strict=True)
    return sum(product(update, module) @ (matrix + flat) @ inverse for update, matrix in pairs)
