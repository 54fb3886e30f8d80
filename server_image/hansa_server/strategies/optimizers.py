"""A server that optimizes: the mean change is a gradient, and its moments last over the rounds.

FedAvgM, FedAdagrad, FedAdam and FedYogi (Reddi et al. 2021). The moments are a file of the global
folder, so a resumed or rolled back federation goes on with those of its start adapter.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from hansa.adapter import lora
from hansa.api.aggregation import Aggregation
from hansa_server.elementwise import BLOCK, blocks, weighted
from hansa_server.merge_input import Array, Merge, Merged, MergeInput, Pair

FIRST, SECOND = "first", "second"
"""Names of the moments: of the changes, and of their squares."""


class Stepped(NamedTuple):
    """What one value's rule gives."""

    change: Array
    """How far the server moves."""
    moments: tuple[Array, ...]
    """What it remembers."""


Rule = Callable[[Aggregation, Array, tuple[Array, ...]], Stepped]


def fedavgm(task: MergeInput) -> Merge:
    """m = momentum·m + change; moves by m."""

    def rule(settings: Aggregation, change: Array, moments: tuple[Array, ...]) -> Stepped:
        first = settings.momentum * moments[0] + change
        return Stepped(first, (first,))

    return _optimized(task, (FIRST,), rule)


def fedadagrad(task: MergeInput) -> Merge:
    """v = v + change²; moves by the change over √v."""

    def rule(settings: Aggregation, change: Array, moments: tuple[Array, ...]) -> Stepped:
        second = moments[0] + change**2
        return Stepped(_adapted(settings, change, second), (second,))

    return _optimized(task, (SECOND,), rule)


def fedadam(task: MergeInput) -> Merge:
    """Moments that fade; moves by the first over the root of the second."""

    def rule(settings: Aggregation, change: Array, moments: tuple[Array, ...]) -> Stepped:
        first = _faded(settings.momentum, moments[0], change)
        second = _faded(settings.second_momentum, moments[1], change**2)
        return Stepped(_adapted(settings, first, second), (first, second))

    return _optimized(task, (FIRST, SECOND), rule)


def fedyogi(task: MergeInput) -> Merge:
    """As FedAdam, with a second moment that shrinks no faster than it grows."""

    def rule(settings: Aggregation, change: Array, moments: tuple[Array, ...]) -> Stepped:
        first = _faded(settings.momentum, moments[0], change)
        square, kept = change**2, moments[1]
        second = kept - (1.0 - settings.second_momentum) * square * np.sign(kept - square)
        return Stepped(_adapted(settings, first, second), (first, second))

    return _optimized(task, (FIRST, SECOND), rule)


def _faded(keep: float, old: Array, new: Array) -> Array:
    return keep * old + (1.0 - keep) * new


def _adapted(settings: Aggregation, first: Array, second: Array) -> Array:
    rate = settings.server_learning_rate
    adapted: Array = rate * first / (np.sqrt(second) + settings.adaptivity)
    return adapted


def _optimized(task: MergeInput, moments: tuple[str, ...], rule: Rule) -> Merge:
    mean = weighted(task, [update.weight for update in task.updates])
    settings = task.settings

    def tensor(name: str) -> tuple[Array, ...]:
        shape = task.start.layout[name].shape
        made = [np.empty(shape) for _ in range(1 + len(moments))]
        for begin, end in blocks(made[0].size, BLOCK):
            start = task.start.values(name, begin, end)
            known = tuple(_remembered(task, m, name, begin, end) for m in moments)
            stepped = rule(settings, mean(name, begin, end) - start, known)
            values = (start + task.step * stepped.change, *stepped.moments)
            for array, part in zip(made, values, strict=True):
                array.reshape(-1)[begin:end] = part
        return tuple(made)

    def layer(module: str) -> Merged:
        a, b = (tensor(name) for name in lora.names(module))
        kept = {m: Pair(a[i], b[i]) for i, m in enumerate(moments, start=1)}
        return Merged(trained=Pair(a[0], b[0]), moments=kept)

    return Merge(layer=layer, frozen_rank=task.frozen_rank, moments=moments)


def _remembered(task: MergeInput, moment: str, name: str, begin: int, end: int) -> Array:
    """A moment as the last round left it; at first none, or tau² where it divides."""
    if task.state:
        return task.state.values(f"{moment}.{name}", begin, end).astype(np.float64)
    return np.full(end - begin, task.settings.adaptivity**2 if moment == SECOND else 0.0)
