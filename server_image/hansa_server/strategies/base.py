"""What a strategy is: many updates in, one aggregate out, reading one update at a time.

A strategy is a function of three parameters, described here for all of them:

start      the global adapter that every update was trained from, in fp32
updates    the members that pass the gate, sorted by environment; each pass over them reads them
           again from the store, so a strategy holds one update at a time unless it needs more
settings   spec.aggregation as frozen with the round

It returns the aggregate in float64 under the same tensor names. `move` then takes the server's step
towards it, alike for every strategy. Equal members must give equal bytes: no clock, no randomness,
and no order but the sorted one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hansa.adapter import Tensors
from hansa.spec import Aggregation

Aggregate = dict[str, NDArray[np.float64]]
"""Tensors before they are rounded to what is stored."""


@dataclass(frozen=True, kw_only=True)
class Update:
    """One member's adapter; its arrays may be read-only views that live as long as it does."""

    environment: str
    """Environment that sent it."""
    tensors: Tensors
    """Its tensors, with the names and shapes of the start adapter."""


class Updates(Protocol):
    """The members of a round; TooFewUpdates ends a pass that leaves fewer than the round needs."""

    def __iter__(self) -> Iterator[Update]: ...


class Strategy(Protocol):
    """How updates become one aggregate."""

    def __call__(self, start: Tensors, updates: Updates, settings: Aggregation) -> Aggregate:
        """The aggregate, in float64."""
        ...


def move(start: Tensors, aggregate: Aggregate, step: float) -> Tensors:
    """The next global adapter: start + step * (aggregate - start), rounded to fp32 once.

    A step of 1 is the aggregate itself, to the last bit. `aggregate` is emptied on the way, so that
    its memory is free again when the adapter is written.
    """
    moved: Tensors = {}
    for name in sorted(start):
        target = aggregate.pop(name)
        if step != 1.0:
            target -= start[name]
            target *= step
            target += start[name]
        with np.errstate(over="ignore"):  # the caller refuses what is not finite
            moved[name] = target.astype(np.float32)
    return moved
