"""The interface of strategies: a round's updates in, the next adapter out, one layer at a time.

A strategy is a function from a MergeInput to a Merge. What needs all updates at once, for example
distances between them, is done when it is called, in blocks; the Merge then makes single layers,
called from several threads. Memory is bounded by the largest tensor, not by the number of members.
Equal members must give equal bytes: use no clock, no random numbers, and keep the sorted order.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hansa.adapter import lora
from hansa.adapter.tensor_file import TensorFile
from hansa.api.aggregation import Aggregation

Array = NDArray[np.float64]


class Pair(NamedTuple):
    """The two factors of one layer."""

    a: Array
    """Of shape (rank, in)."""
    b: Array
    """Of shape (out, rank)."""


@dataclass(frozen=True, kw_only=True)
class Update:
    """One member's adapter, which has passed the gate."""

    environment: str
    """Environment that sent it."""
    file: TensorFile
    """Its tensors, with the names and shapes of the start adapter's trainable part."""
    weight: float = 1.0
    """Its weight; the members' shares are computed from their weights."""
    norm: float = 0.0
    """Frobenius norm of its change of the start adapter's tensors."""
    moments: TensorFile | None = None
    """Moments of its silo's inputs, where the strategy needs them."""


@dataclass(frozen=True, kw_only=True)
class MergeInput:
    """What is merged in a round."""

    start: TensorFile
    """Trainable part of the global adapter that every update was trained from."""
    frozen: TensorFile | None = None
    """Its frozen part; absent while it has none."""
    updates: Sequence[Update]
    """The members, sorted by environment; at least one."""
    settings: Aggregation
    """spec.aggregation as frozen with the round."""
    round: int
    """The round, and the round of the result."""
    seed: int
    """The federation's seed."""
    state: TensorFile | None = None
    """The state that the same strategy stored with the start adapter; None in its first round."""

    @cached_property
    def modules(self) -> list[str]:
        """Layers that have an adapter, sorted."""
        return lora.target_names(self.start.layout)

    @cached_property
    def frozen_rank(self) -> int:
        """Rank of the frozen part."""
        return (
            self.frozen.layout[lora.tensor_names(self.modules[0]).a].shape[0] if self.frozen else 0
        )

    @cached_property
    def rank(self) -> int:
        """Rank of the trainable part."""
        return self.start.layout[lora.tensor_names(self.modules[0]).a].shape[0]

    @property
    def step(self) -> float:
        """The server step; `auto` is replaced by a number before anything is merged."""
        step = self.settings.server_step
        if isinstance(step, str):
            raise TypeError(f"server step {step} of a task that was not fitted")
        return step

    @cached_property
    def is_untrained(self) -> bool:
        """Whether the start's trainable part adds nothing yet: all its B are zero."""
        names = (lora.tensor_names(module).b for module in self.modules)
        return not any(np.any(self.start.read(name)) for name in names)

    @cached_property
    def shares(self) -> list[float]:
        """The members' weights divided by their sum."""
        total = sum(update.weight for update in self.updates)
        return [update.weight / total for update in self.updates]


@dataclass(frozen=True, kw_only=True)
class Merged:
    """One layer of the result, before it is rounded to fp32."""

    trained: Pair
    """The part that clients continue to train, of the federation's rank."""
    frozen: Pair | None = None
    """The new frozen part; None: it stays as it is."""
    moments: Mapping[str, Pair] = field(default_factory=dict)
    """The strategy's state for the next round, by name."""
    whole: float = 0.0
    """Squared Frobenius norm of the B·A that was compressed; 0 where nothing was."""
    lost: float = 0.0
    """Squared Frobenius norm of the compression's error."""


@dataclass(frozen=True, kw_only=True)
class Merge:
    """What a strategy makes of one input."""

    layer: Callable[[str], Merged]
    """Makes one layer; called once for each, from any thread."""
    frozen_rank: int
    """Rank of the result's frozen part, the same in all layers."""
    moments: tuple[str, ...] = ()
    """Names of the state that every layer has."""
    stretch: Callable[[int, int], Array] | None = None
    """Makes a range of the result's data instead of a layer; for rules that work value by value,
    where all files have the same layout."""


Strategy = Callable[[MergeInput], Merge]
"""How updates become the next global adapter: it prepares the merge, and computes nothing yet."""
