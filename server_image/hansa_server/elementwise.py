"""Rules that work value by value on A and on B, in blocks that fit a processor's cache."""

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from hansa.adapter import lora
from hansa.adapter.tensor_file import TensorFile
from hansa.api.strategies import Half
from hansa_server.merge_input import Array, Merge, Merged, MergeInput, Pair

BLOCK = 2**17
"""Values of one tensor that are summed at a time."""
STACK = 2**21
"""Values of all members that are held at a time where a rule needs them stacked."""

_ZERO = np.float32(0)
_Kind = TypeVar("_Kind", np.float32, np.float64, np.uint32)


class ThreadBuffer(threading.local, Generic[_Kind]):
    """An array for each thread that is reused: allocating one costs more than a sum in it."""

    def __init__(self, kind: type[_Kind]) -> None:
        self._array: NDArray[_Kind] = np.empty(0, kind)

    def take(self, count: int) -> NDArray[_Kind]:
        """An array of this many values, valid until this thread's next call."""
        if self._array.size < count:
            self._array = np.empty(count, self._array.dtype)
        return self._array[:count]


Rule = Callable[[str, int, int], Array]
"""The aggregate of a tensor's values from one index to another, until this thread's next call."""


def merge_by_element(
    task: MergeInput, rule: Rule, half: Half = "both", block: int = BLOCK
) -> Merge:
    """A merge by a rule; the half of LoRA that is not trained stays bit for bit as in the start."""

    def tensor(name: str) -> Array:
        shape = task.start.layout[name].shape
        if half not in ("both", lora.side(name)):
            return task.start.read(name).astype(np.float64)
        made = np.empty(shape)
        flat = made.reshape(-1)
        for begin, end in split_range(flat.size, block):
            start = partial(task.start.values, name, begin, end)
            flat[begin:end] = _take_step(task, rule(name, begin, end), start)
        return made

    def layer(module: str) -> Merged:
        names = lora.tensor_names(module)
        return Merged(trained=Pair(tensor(names.a), tensor(names.b)))

    return Merge(layer=layer, frozen_rank=task.frozen_rank)


def _take_step(
    task: MergeInput, aggregate: Array, start: Callable[[], NDArray[np.float32]]
) -> Array:
    """start + serverStep * (aggregate - start); a step of 1 gives the aggregate, bit for bit."""
    step = task.step
    if step == 1.0:
        return aggregate
    begun = start()
    aggregate -= begun
    aggregate *= step
    aggregate += begun
    return aggregate


def make_mean_rule(task: MergeInput, weights: Sequence[float]) -> Rule:
    """The weighted mean; summed in sorted order and divided once."""
    mean = _Mean(task, weights)

    def rule(name: str, begin: int, end: int) -> Array:
        return mean(end - begin, lambda file, room: file.values(name, begin, end, room))

    return rule


def make_stretch_mean(
    task: MergeInput, weights: Sequence[float]
) -> Callable[[int, int], Array] | None:
    """`weighted` and its step over ranges of whole files; None where their layouts differ.

    It gives the same bits in fewer and longer pieces.
    """
    start = task.start
    is_sorted = start.order == sorted(start.order)  # as the result will be
    if task.frozen or not is_sorted or not all(u.file.has_same_layout(start) for u in task.updates):
        return None
    mean = _Mean(task, weights)

    def stretch(begin: int, end: int) -> Array:
        average = mean(end - begin, lambda file, room: file.stretch(begin, end, room))
        return _take_step(task, average, lambda: start.stretch(begin, end))

    return stretch


class _Mean:
    """The weighted mean of a range of each member's values."""

    def __init__(self, task: MergeInput, weights: Sequence[float]) -> None:
        self._members = [(u.file, w) for u, w in zip(task.updates, weights, strict=True) if w]
        self._divisor = sum(weight for _, weight in self._members)
        self._room, self._total = ThreadBuffer(np.float32), ThreadBuffer(np.float64)

    def __call__(
        self, count: int, read: Callable[[TensorFile, NDArray[np.float32]], NDArray[np.float32]]
    ) -> Array:
        total, room = self._total.take(count), self._room.take(count)
        for index, (file, weight) in enumerate(self._members):
            values = read(file, room)
            if index == 0:
                np.add(values, _ZERO, out=total)  # as a sum that begins with 0: no value is -0
                if weight != 1.0:
                    total *= weight
                    total += 0.0
            elif weight == 1.0:
                np.add(total, values, out=total)
            else:
                total += weight * values.astype(np.float64)
        total /= self._divisor
        return total


def make_move_rule(task: MergeInput, factors: Sequence[float]) -> Rule:
    """The start plus the sum of all changes, each times its factor."""

    def rule(name: str, begin: int, end: int) -> Array:
        start = task.start.values(name, begin, end).astype(np.float64)
        total = start.copy()
        for update, factor in zip(task.updates, factors, strict=True):
            total += factor * (update.file.values(name, begin, end) - start)
        return total

    return rule


def make_stack_rule(task: MergeInput, reduce: Callable[[NDArray[np.float32]], Array]) -> Rule:
    """A rule over an array with a row for each member."""

    def rule(name: str, begin: int, end: int) -> Array:
        return reduce(np.stack([u.file.values(name, begin, end) for u in task.updates]))

    return rule


def average_middle(rows: NDArray[np.float32], cut: int) -> Array:
    """The mean of each column without its `cut` smallest and largest values."""
    ordered = np.sort(rows, axis=0)
    kept: Array = ordered[cut : len(ordered) - cut].mean(axis=0, dtype=np.float64)
    return kept


def choose_stack_block(task: MergeInput) -> int:
    """Values of a tensor to stack at a time, by the number of members."""
    return max(1024, STACK // len(task.updates))


def measure_distances(task: MergeInput) -> Array:
    """Squared distances between all members, over all tensors."""
    count = len(task.updates)
    gram = np.zeros((count, count))
    for name, entry in task.start.layout.items():
        for begin, end in split_range(int(np.prod(entry.shape)), choose_stack_block(task)):
            start = task.start.values(name, begin, end).astype(np.float64)
            rows = np.stack([u.file.values(name, begin, end) - start for u in task.updates])
            gram += rows @ rows.T
    squares = np.diag(gram)
    return np.maximum(squares[:, None] + squares[None, :] - 2 * gram, 0.0)


def is_finite(values: NDArray[np.float32]) -> bool:
    """Whether every value is finite.

    A sum of squares is the fastest check: it is finite only if all values are. Where it overflows,
    each value is checked.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        return math.isfinite(np.dot(values, values)) or bool(np.isfinite(values).all())


def split_range(count: int, block: int) -> Iterator[tuple[int, int]]:
    """Ranges that cover `count` values."""
    for begin in range(0, count, block):
        yield begin, min(begin + block, count)
