"""The accountant: what steps of the Poisson-subsampled Gaussian cost, by Rényi divergence.

Costs of steps add up order by order (Mironov, Talwar, Zhang 2019, at whole orders), and the sum
becomes one epsilon for a delta (Canonne, Kamath, Steinke 2020). It is an upper bound: the exact
cost is never more. Pure arithmetic; plan, command line and client use the same numbers.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

NAME = "rdp/1"
"""This accountant with these orders, as documents name it."""
ORDERS: tuple[int, ...] = (*range(2, 65), 80, 96, 128, 192, 256, 384, 512)
"""Orders of the divergence that are looked at; more would change the third digit."""
MOST_NOISE = 1e4
"""The largest noise multiplier that is looked for."""

Costs = tuple[float, ...]
"""A divergence for each of ORDERS; those of two releases are added."""


@lru_cache(maxsize=256)
def step_costs(rate: float, noise: float) -> Costs:
    """One step in which each record takes part with this rate, of noise in units of the clip."""
    return tuple(_divergence(rate, noise, order) for order in ORDERS)


def _divergence(rate: float, noise: float, order: int) -> float:
    if rate == 1:
        return order / (2 * noise**2)
    terms = [
        math.lgamma(order + 1)
        - math.lgamma(k + 1)
        - math.lgamma(order - k + 1)
        + k * math.log(rate)
        + (order - k) * math.log1p(-rate)
        + (k * k - k) / (2 * noise**2)
        for k in range(order + 1)
    ]
    most = max(terms)
    return (most + math.log(math.fsum(math.exp(term - most) for term in terms))) / (order - 1)


def sum_costs(parts: Sequence[tuple[Costs, int]]) -> Costs:
    """Releases one after another: costs, and how often each was paid."""
    return tuple(
        math.fsum(costs[index] * times for costs, times in parts) for index in range(len(ORDERS))
    )


def epsilon(costs: Costs, delta: float) -> float:
    """The epsilon that these costs are at a delta; of nothing it is 0."""
    if not any(costs):
        return 0.0
    least = min(
        cost + math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)
        for order, cost in zip(ORDERS, costs, strict=True)
    )
    return max(0.0, least)


@lru_cache(maxsize=256)
def spent_epsilon(rate: float, noise: float, steps: int, delta: float) -> float:
    """Epsilon after a number of steps."""
    return epsilon(sum_costs([(step_costs(rate, noise), steps)]), delta)


@lru_cache(maxsize=256)
def find_noise(rate: float, steps: int, epsilon_: float, delta: float) -> float | None:
    """The smallest noise multiplier for which steps cost no more; None: none is large enough.

    Rounded up to four digits behind the point, so that a person can write it down.
    """
    low, high = 0.0, 1.0
    while spent_epsilon(rate, high, steps, delta) > epsilon_:
        low, high = high, 2 * high
        if high > MOST_NOISE:
            return None
    while high - low > 1e-5:
        middle = (low + high) / 2
        if middle and spent_epsilon(rate, middle, steps, delta) <= epsilon_:
            high = middle
        else:
            low = middle
    rounded = math.ceil(high * 1e4) / 1e4
    return rounded if spent_epsilon(rate, rounded, steps, delta) <= epsilon_ else rounded + 1e-4
