"""Rules that work value by value on A and on B, in blocks that fit a processor's cache."""

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from hansa.adapter import lora
from hansa.adapter.tensor_file import TensorFile
from hansa.api.aggregation import Half
from hansa_server.merge_input import Array, Merge, Merged, MergeInput, Pair

BLOCK = 2**17
"""Values of one tensor that are summed at a time."""
STACK = 2**21
"""Values of all members that are held at a time where a rule needs them side by side."""


_ZERO = np.float32(0)
_Kind = TypeVar("_Kind", np.float32, np.float64, np.uint32)


class ThreadBuffer(threading.local, Generic[_Kind]):
    """An array of each thread, filled again and again: fresh memory costs more than a sum in it."""

    def __init__(self, kind: type[_Kind]) -> None:
        self._array: NDArray[_Kind] = np.empty(0, kind)

    def take(self, count: int) -> NDArray[_Kind]:
        """Room for this many values, until this thread takes it again."""
        if self._array.size < count:
            self._array = np.empty(count, self._array.dtype)
        return self._array[:count]


class Rule(Protocol):
    """The aggregate of some values of a tensor, in float64."""

    def __call__(self, name: str, begin: int, end: int) -> Array:
        """Values `begin` to `end` of the tensor of that name, until the same thread asks again."""
        ...


def by_element(task: MergeInput, rule: Rule, half: Half = "both", block: int = BLOCK) -> Merge:
    """A merge by a rule; the half that is not trained stays the start's, to the last bit."""

    def tensor(name: str) -> Array:
        shape = task.start.layout[name].shape
        if half not in ("both", lora.side(name)):
            return task.start.read(name).astype(np.float64)
        made = np.empty(shape)
        flat = made.reshape(-1)
        for begin, end in blocks(flat.size, block):
            start = partial(task.start.values, name, begin, end)
            flat[begin:end] = _stepped(task, rule(name, begin, end), start)
        return made

    def layer(module: str) -> Merged:
        names = lora.names(module)
        return Merged(trained=Pair(tensor(names.a), tensor(names.b)))

    return Merge(layer=layer, frozen_rank=task.frozen_rank)


def _stepped(task: MergeInput, aggregate: Array, start: Callable[[], NDArray[np.float32]]) -> Array:
    """start + serverStep * (aggregate - start); a step of 1 is the aggregate to the last bit."""
    step = task.step
    if step == 1.0:
        return aggregate
    begun = start()
    aggregate -= begun
    aggregate *= step
    aggregate += begun
    return aggregate


def weighted(task: MergeInput, weights: Sequence[float]) -> Rule:
    """The weighted mean; summed in sorted order and divided once."""
    mean = _Mean(task, weights)

    def rule(name: str, begin: int, end: int) -> Array:
        return mean(end - begin, lambda file, room: file.values(name, begin, end, room))

    return rule


def straight(task: MergeInput, weights: Sequence[float]) -> Callable[[int, int], Array] | None:
    """The weighted mean and its step without a look at tensors; none where files lie differently.

    It is the rule above to the last bit, in fewer and longer pieces.
    """
    start = task.start
    is_sorted = start.order == sorted(start.order)  # as the result will be
    if task.frozen or not is_sorted or not all(u.file.lies_like(start) for u in task.updates):
        return None
    mean = _Mean(task, weights)

    def stretch(begin: int, end: int) -> Array:
        average = mean(end - begin, lambda file, room: file.stretch(begin, end, room))
        return _stepped(task, average, lambda: start.stretch(begin, end))

    return stretch


class _Mean:
    """The weighted mean of as many values of each member."""

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
                np.add(values, _ZERO, out=total)  # as a sum that begins with 0: it never is -0
                if weight != 1.0:
                    total *= weight
                    total += 0.0
            elif weight == 1.0:
                np.add(total, values, out=total)
            else:
                total += weight * values.astype(np.float64)
        total /= self._divisor
        return total


def moved(task: MergeInput, factors: Sequence[float]) -> Rule:
    """The start, moved by the sum of all changes, each times its factor."""

    def rule(name: str, begin: int, end: int) -> Array:
        start = task.start.values(name, begin, end).astype(np.float64)
        total = start.copy()
        for update, factor in zip(task.updates, factors, strict=True):
            total += factor * (update.file.values(name, begin, end) - start)
        return total

    return rule


def stacked(task: MergeInput, reduce: Callable[[NDArray[np.float32]], Array]) -> Rule:
    """A rule over the members side by side: one row each."""

    def rule(name: str, begin: int, end: int) -> Array:
        return reduce(np.stack([u.file.values(name, begin, end) for u in task.updates]))

    return rule


def middle(rows: NDArray[np.float32], cut: int) -> Array:
    """Per column, the mean of what is left without the `cut` smallest and largest values."""
    ordered = np.sort(rows, axis=0)
    kept: Array = ordered[cut : len(ordered) - cut].mean(axis=0, dtype=np.float64)
    return kept


def stack_block(task: MergeInput) -> int:
    """Values of a tensor at a time, so that those of all members fit."""
    return max(1024, STACK // len(task.updates))


def distances(task: MergeInput) -> Array:
    """Squared distance of every member from every other, over all tensors."""
    count = len(task.updates)
    gram = np.zeros((count, count))
    for name, entry in task.start.layout.items():
        for begin, end in blocks(int(np.prod(entry.shape)), stack_block(task)):
            start = task.start.values(name, begin, end).astype(np.float64)
            rows = np.stack([u.file.values(name, begin, end) - start for u in task.updates])
            gram += rows @ rows.T
    squares = np.diag(gram)
    return np.maximum(squares[:, None] + squares[None, :] - 2 * gram, 0.0)


def is_finite(values: NDArray[np.float32]) -> bool:
    """Whether every value is a number.

    A sum of squares is finite only if they all are, and is the fastest look at many values; where
    it overflows, each of them is asked.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        return math.isfinite(np.dot(values, values)) or bool(np.isfinite(values).all())


def blocks(count: int, block: int) -> Iterator[tuple[int, int]]:
    """Ranges that cover `count` values."""
    for begin in range(0, count, block):
        yield begin, min(begin + block, count)
