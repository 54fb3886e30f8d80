"""Each update where its own silo's inputs are, by second moments of every layer's inputs (RegMean).

The change of a layer is the one whose outputs, on all silos' inputs, are nearest to those of each
silo's own change: sum of B·A·P with P = G·(sum of all G)⁻¹, where G is the mean of x·xᵀ over a
silo's tokens. All P together are the identity: silos with equal inputs share alike, which is the
mean of `flora`, and silos whose inputs have nothing in common each keep their own change whole.
The sum joins the frozen part as by `flora`, and training starts afresh.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numpy as np

from hansa.adapter import lora
from hansa.adapter import second_moments as contract
from hansa.api.strategies import RegMeanOptions
from hansa_server import moments
from hansa_server.factors import Term, make_file_term
from hansa_server.merge_input import Array, Merge, MergeInput
from hansa_server.moments import Moments
from hansa_server.plugin import StrategyPlugin
from hansa_server.strategies.flora import folded, stacked
from hansa_server.strategies.terms import keeps_old

MEMORY = 500_000_000
"""Bytes that layers which are worked on at the same time may take together."""
RIDGE = 1e-3
"""What all silos together have along every direction, as a share of the mean of all directions:
where nobody's inputs are, they share alike."""


class RegMean(StrategyPlugin):
    """Training starts afresh each round."""

    options: RegMeanOptions

    def merge(self, task: MergeInput) -> Merge:
        """The frozen part with every update where its inputs are."""
        return folded(task, _Turned(task).terms, self.options.max_rank)


def regmean_stacked(task: MergeInput) -> Merge:
    """The same as one adapter, which nobody trains on from."""
    return stacked(task, _Turned(task).terms)


class MemoryBudget:
    """Memory that threads share: who needs more than is left waits until others have given back.

    What alone needs more than there is goes alone.
    """

    def __init__(self, size: int) -> None:
        self._size, self._used = size, 0
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, needed: int) -> Iterator[None]:
        """Hold that much for a while."""
        with self._changed:
            self._changed.wait_for(lambda: not self._used or self._used + needed <= self._size)
            self._used += needed
        try:
            yield
        finally:
            with self._changed:
                self._used -= needed
                self._changed.notify_all()


class _Turned:
    """A·P of all members, made for all layers of an input at once and kept until they are taken."""

    def __init__(self, task: MergeInput) -> None:
        self._task = task
        files = [update.moments for update in task.updates if update.moments]
        inputs = contract.parse_inputs(files[0].layout)
        self._inputs = {layer: layers for layers in inputs for layer in layers}
        self._files = files
        self._made: dict[str, list[Array]] = {}
        self._locks = {layers: threading.Lock() for layers in self._inputs.values()}
        self._room = MemoryBudget(MEMORY)

    def terms(self, task: MergeInput, module: str) -> list[Term]:
        """old + serverStep·(sum of B·A·P - old) of one layer, as terms."""
        terms = [make_file_term(task.start, module, 1.0 - task.step)] if keeps_old(task) else []
        for update, rows in zip(task.updates, self._rows(module), strict=True):
            term = make_file_term(update.file, module, task.step)
            terms.append(replace(term, columns=partial(_columns, rows)))
        return terms

    def _rows(self, module: str) -> list[Array]:
        layers = self._inputs[module]
        with self._locks[layers]:
            if module not in self._made:
                with self._room.taken(self._needed(layers)):
                    self._made |= self._turn(layers)
            return self._made.pop(module)

    def _needed(self, layers: Sequence[str]) -> int:
        """Bytes: of all directions, of their products with each other, and of the rows."""
        shapes = [file.shapes[contract.moment_names(layers).vectors] for file in self._files]
        count, width = sum(shape[0] for shape in shapes), shapes[0][1]
        names = [lora.tensor_names(layer).a for layer in layers]
        rows = sum(update.file.shapes[name][0] for name in names for update in self._task.updates)
        return 8 * (count * width + 2 * min(count, width) ** 2 + 4 * rows * width)

    def _turn(self, layers: Sequence[str]) -> dict[str, list[Array]]:
        """A·P of each layer that reads this input, and of each member."""
        names = [lora.tensor_names(layer).a for layer in layers]
        own = balanced([moments.read_moments(file, layers) for file in self._files])
        rows = [
            np.concatenate([update.file.read(name).astype(np.float64) for name in names])
            for update in self._task.updates
        ]
        made: dict[str, list[Array]] = {layer: [] for layer in layers}
        for turned in projected(rows, own):
            for layer, part in zip(layers, np.split(turned, len(layers)), strict=True):
                made[layer].append(part)
        return made


def _columns(rows: Array, begin: int, end: int, _: object) -> Array:
    return rows[:, begin:end]


def balanced(own: Sequence[Moments]) -> list[Moments]:
    """All of one length: nobody counts more by claiming more, nor less for having shorter inputs.

    The gate lets none pass that is zero.
    """
    shares = [(each, 1.0 / each.trace) for each in own]
    return [replace(each, values=each.values * s, rest=each.rest * s) for each, s in shares]


def projected(rows: Sequence[Array], own: Sequence[Moments]) -> list[Array]:
    """Rows of each member times its P = G·(sum of all G)⁻¹, in factors.

    With W the directions of all members, each times the root of its size, the sum is WᵀW + s·I, and
    its inverse needs one of W·Wᵀ + s·I only, which is smaller as long as few directions are sent.
    """
    width = own[0].width
    ridge = RIDGE * sum(each.trace for each in own) / width / len(own)
    rests = [each.rest + ridge for each in own]
    given = np.empty((sum(len(part) for part in rows), width))
    scaled = np.empty((sum(len(each.values) for each in own), width))
    ends = np.cumsum([len(part) for part in rows])[:-1]
    kept = np.cumsum([len(each.values) for each in own])[:-1]
    places = zip(np.split(given, ends), np.split(scaled, kept), strict=True)
    for part, each, rest, (turned, directions) in zip(rows, own, rests, places, strict=True):
        directions[:] = each.read()
        turned[:] = ((part @ directions.T) * each.values) @ directions + rest * part
        directions *= np.sqrt(each.values)[:, None]
    return np.split(_solved(given, scaled, sum(rests)), ends)


def _solved(given: Array, scaled: Array, rest: float) -> Array:
    """given·(scaledᵀ·scaled + rest·I)⁻¹."""
    count, width = scaled.shape
    if count >= width:
        total = scaled.T @ scaled
        total[np.diag_indices(width)] += rest
        return np.asarray(np.linalg.solve(total, given.T).T, dtype=np.float64)
    inner = scaled @ scaled.T
    inner[np.diag_indices(count)] += rest
    weights = np.linalg.solve(inner, scaled @ given.T)
    return np.asarray((given - weights.T @ scaled) / rest, dtype=np.float64)
