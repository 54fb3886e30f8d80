"""How the updates of a round become the next adapter: mean, mean with FedExP's step, regmean."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from moments import Moments

from hansa.adapter import lora
from hansa.adapter.lora import Tensors
from hansa_server.factors import make_pair_term
from hansa_server.merge_input import Array, Pair
from hansa_server.strategies.terms import bounded

RIDGE = 1e-3
"""What is added to the diagonal of the sum of moments, as a share of its mean."""
_WORKERS = 4

Wide = dict[str, Array]
"""An adapter's tensors in float64."""


@dataclass(frozen=True, kw_only=True)
class Folded:
    """A frozen part that took the updates in."""

    frozen: Tensors
    """Its tensors."""
    lost: float
    """Share of the squared norm that recompression cut away."""


def mean(updates: Sequence[Tensors]) -> Wide:
    """Of A and of B, value by value, summed in the order that strategy `mean` takes."""
    made: Wide = {}
    for name in sorted(updates[0]):
        total = np.zeros(updates[0][name].shape)
        for update in updates:
            total += update[name]
        made[name] = total / len(updates)
    return made


def adaptive_step(start: Tensors, updates: Sequence[Tensors]) -> float:
    """FedExP: mean |c|² / (2 |mean c|²) of the changes c over all tensors, and at least 1."""
    of_mean = sum(float(np.sum(np.square(v - start[n]))) for n, v in mean(updates).items())
    squares = [lora.distance(update, start) ** 2 for update in updates]
    return max(1.0, sum(squares) / len(squares) / (2 * of_mean)) if of_mean else 1.0


def stepped(start: Tensors, updates: Sequence[Tensors], step: float) -> Tensors:
    """start + step·(mean - start); a step of 1 is the mean to the last bit."""
    average = mean(updates)
    if step != 1.0:
        average = {n: (value - start[n]) * step + start[n] for n, value in average.items()}
    return {name: value.astype(np.float32) for name, value in average.items()}


def regmean(
    frozen: Tensors, updates: Sequence[Tensors], moments: Sequence[Moments], max_rank: int
) -> Folded:
    """The frozen part with sum_i Bi·Ai·Gi·(sum_j Gj + lambda·I)⁻¹ added to it.

    Of all changes it is the one whose outputs, on each silo's own inputs, are nearest to those of
    the silo's own change. At more than max_rank it is recompressed as strategy `flora` does.
    """
    modules = lora.target_names(updates[0])
    turned = _turned(modules, updates, moments)
    ranks = [len(pair.a) for pair in turned[modules[0]]]
    if frozen:
        ranks.append(len(frozen[lora.tensor_names(modules[0]).a]))
    rank = min(max_rank, sum(ranks))

    def layer(module: str) -> tuple[Pair, float, float]:
        terms = [make_pair_term(pair) for pair in turned[module]]
        names = lora.tensor_names(module)
        if frozen:
            old = Pair(frozen[names.a].astype(np.float64), frozen[names.b].astype(np.float64))
            terms.insert(0, make_pair_term(old))
        pair, squares = bounded(terms, rank)
        return pair, squares.whole, squares.lost

    with ThreadPoolExecutor(_WORKERS) as pool:
        made = list(pool.map(layer, modules))
    tensors: Tensors = {}
    for module, (pair, _, _) in zip(modules, made, strict=True):
        names = lora.tensor_names(module)
        tensors[names.a] = np.ascontiguousarray(pair.a, dtype=np.float32)
        tensors[names.b] = np.ascontiguousarray(pair.b, dtype=np.float32)
    whole, lost = sum(one[1] for one in made), sum(one[2] for one in made)
    return Folded(frozen=tensors, lost=lost / whole if whole else 0.0)


@torch.no_grad()
def _turned(
    modules: Sequence[str], updates: Sequence[Tensors], moments: Sequence[Moments]
) -> dict[str, list[Pair]]:
    """Ai·Gi·(sum_j Gj + lambda·I)⁻¹ and Bi of each silo, by layer; one solution for each input."""
    turned: dict[str, list[Pair]] = {}
    for first in moments[0].by_input:
        sharing = [module for module in modules if moments[0].input_of[module] == first]
        own = [each.by_input[first].double() for each in moments]
        total = torch.stack(own).sum(0)
        total.diagonal().add_(RIDGE * total.diagonal().mean())
        columns = [
            matrix @ _of(update, lora.tensor_names(module).a, matrix.device).T
            for update, matrix in zip(updates, own, strict=True)
            for module in sharing
        ]
        solved = torch.cholesky_solve(torch.cat(columns, dim=1), torch.linalg.cholesky(total))
        rows = solved.T.cpu().numpy()
        for update in updates:
            for module in sharing:
                names = lora.tensor_names(module)
                rank = len(update[names.a])
                pair = Pair(np.ascontiguousarray(rows[:rank]), update[names.b].astype(np.float64))
                turned.setdefault(module, []).append(pair)
                rows = rows[rank:]
    return turned


def _of(tensors: Tensors, name: str, device: torch.device) -> torch.Tensor:
    return torch.from_numpy(tensors[name].astype(np.float64)).to(device)
