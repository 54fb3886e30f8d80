"""Confidence intervals of success rates: how far a curve may be trusted.

Rates come from few dozens of episodes, where the textbook interval p ± 1.96·s fails at 0 and 1;
Wilson's does not. Means and differences combine such limits by Zou and Donner's MOVER, which for
a difference is Newcombe's hybrid interval. Both treat evaluations as independent: base and last
adapter play the same tasks, so the interval of their difference is, if anything, too wide.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

Z95 = 1.959963984540054


@dataclass(frozen=True)
class Interval:
    """A figure with its 95 % limits."""

    low: float
    value: float
    high: float


def wilson(successes: int, episodes: int) -> Interval:
    """Wilson's score interval of a success rate; without episodes anything is possible."""
    if episodes <= 0:
        return Interval(0.0, 0.0, 1.0)
    successes = min(max(successes, 0), episodes)
    rate = successes / episodes
    shrink = 1 + Z95**2 / episodes
    centre = (rate + Z95**2 / (2 * episodes)) / shrink
    spread = rate * (1 - rate) / episodes + Z95**2 / (4 * episodes**2)
    half = Z95 * math.sqrt(spread) / shrink
    return Interval(max(0.0, min(rate, centre - half)), rate, min(1.0, max(rate, centre + half)))


def mean(parts: Sequence[Interval]) -> Interval | None:
    """The unweighted mean of independent rates, as the federation's success is defined."""
    if not parts:
        return None
    count = len(parts)
    value = sum(part.value for part in parts) / count
    below = math.sqrt(sum((part.value - part.low) ** 2 for part in parts)) / count
    above = math.sqrt(sum((part.high - part.value) ** 2 for part in parts)) / count
    return Interval(max(0.0, value - below), value, min(1.0, value + above))


def difference(new: Interval, old: Interval) -> Interval:
    """How much a rate has changed."""
    change = new.value - old.value
    below = math.hypot(new.value - new.low, old.high - old.value)
    above = math.hypot(new.high - new.value, old.value - old.low)
    return Interval(max(-1.0, change - below), change, min(1.0, change + above))
