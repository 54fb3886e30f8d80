"""A server that optimizes: the mean change is a gradient, and its moments last over the rounds.

FedAvgM, FedAdagrad, FedAdam and FedYogi (Reddi et al. 2021). The moments are a file of the global
folder, so a resumed or rolled back federation continues with those of its start adapter.
"""

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from hansa.adapter import lora
from hansa.api.strategies import AdamOptions, AdaptiveOptions, MomentumOptions
from hansa_server.elementwise import BLOCK, make_mean_rule, split_range
from hansa_server.merge_input import Array, Merge, Merged, MergeInput, Pair
from hansa_server.plugin import StrategyPlugin

FIRST, SECOND = "first", "second"
"""Names of the moments: of the changes, and of their squares."""


class ServerOptimizer(StrategyPlugin):
    """The start moved by a rule on the mean change."""

    remembers: ClassVar[tuple[str, ...]] = (FIRST, SECOND)
    """Moments that the rule gets and gives."""

    @abstractmethod
    def move(self, change: Array, moments: tuple[Array, ...]) -> tuple[Array, ...]:
        """How far the server moves by a change, value by value, and the moments it remembers."""

    def merge(self, task: MergeInput) -> Merge:
        """The moved start, with the moments that the next round continues from."""
        mean = make_mean_rule(task, [update.weight for update in task.updates])

        def tensor(name: str) -> tuple[Array, ...]:
            shape = task.start.layout[name].shape
            made = [np.empty(shape) for _ in range(1 + len(self.remembers))]
            for begin, end in split_range(made[0].size, BLOCK):
                start = task.start.values(name, begin, end)
                known = tuple(self._known(task, m, name, begin, end) for m in self.remembers)
                moved, *kept = self.move(mean(name, begin, end) - start, known)
                values = (start + task.step * moved, *kept)
                for array, part in zip(made, values, strict=True):
                    array.reshape(-1)[begin:end] = part
            return tuple(made)

        def layer(module: str) -> Merged:
            a, b = (tensor(name) for name in lora.tensor_names(module))
            kept = {m: Pair(a[i], b[i]) for i, m in enumerate(self.remembers, start=1)}
            return Merged(trained=Pair(a[0], b[0]), moments=kept)

        return Merge(layer=layer, frozen_rank=task.frozen_rank, moments=self.remembers)

    def _known(self, task: MergeInput, moment: str, name: str, begin: int, end: int) -> Array:
        """A moment as the last round left it; before the first none, or tau² where it divides."""
        if task.state:
            return task.state.values(f"{moment}.{name}", begin, end).astype(np.float64)
        return np.full(end - begin, self.options.adaptivity**2 if moment == SECOND else 0.0)


class FedAvgM(ServerOptimizer):
    """m = momentum·m + change; moves by m."""

    options: MomentumOptions
    remembers = (FIRST,)

    def move(self, change: Array, moments: tuple[Array, ...]) -> tuple[Array, ...]:
        """The change, and what is left of those before it."""
        first = self.options.momentum * moments[0] + change
        return first, first


class FedAdagrad(ServerOptimizer):
    """v = v + change²; moves by the change over √v."""

    options: AdaptiveOptions
    remembers = (SECOND,)

    def move(self, change: Array, moments: tuple[Array, ...]) -> tuple[Array, ...]:
        """Less far the farther it has moved already."""
        second = moments[0] + change**2
        return _adapted(self.options, change, second), second


class FedAdam(ServerOptimizer):
    """Moments that fade; moves by the first over the root of the second."""

    options: AdamOptions

    def move(self, change: Array, moments: tuple[Array, ...]) -> tuple[Array, ...]:
        """About as far whatever the size of the changes is."""
        first = _faded(self.options.momentum, moments[0], change)
        second = self.squares(moments[1], change**2)
        return _adapted(self.options, first, second), first, second

    def squares(self, kept: Array, square: Array) -> Array:
        """The second moment."""
        return _faded(self.options.second_momentum, kept, square)


class FedYogi(FedAdam):
    """As FedAdam, with a second moment that shrinks no faster than it grows."""

    def squares(self, kept: Array, square: Array) -> Array:
        """By the sign of the difference alone."""
        moved: Array = (1.0 - self.options.second_momentum) * square * np.sign(kept - square)
        return kept - moved


def _faded(keep: float, old: Array, new: Array) -> Array:
    return keep * old + (1.0 - keep) * new


def _adapted(options: AdaptiveOptions, first: Array, second: Array) -> Array:
    rate = options.server_learning_rate
    adapted: Array = rate * first / (np.sqrt(second) + options.adaptivity)
    return adapted
