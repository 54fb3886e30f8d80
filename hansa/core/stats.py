"""Confidence intervals of success rates.

With a few dozen episodes the interval p ± 1.96·s fails at 0 and 1; Wilson's does not. Means and
differences combine limits by Zou and Donner's MOVER, which for a difference is Newcombe's hybrid
interval. Both treat evaluations as independent: base and last adapter play the same tasks, so the
interval of their difference is, if anything, too wide.

Where tasks are played several times, their episodes are clusters, which count as fewer independent
episodes: the effective ones.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

Z95 = 1.959963984540054
_T95 = (12.7062, 4.3027, 3.1824, 2.7764, 2.5706)
"""Student's 97.5 % points of 1 to 5 degrees of freedom, where the series below is too rough."""


@dataclass(frozen=True)
class Interval:
    """A figure with its 95 % limits."""

    low: float
    value: float
    high: float


def rate_interval(rate: float, effective: float) -> Interval:
    """Wilson's score interval of a rate, by its number of effective episodes; without episodes
    anything is possible."""
    if effective <= 0:
        return Interval(0.0, rate, 1.0)
    shrink = 1 + Z95**2 / effective
    centre = (rate + Z95**2 / (2 * effective)) / shrink
    spread = rate * (1 - rate) / effective + Z95**2 / (4 * effective**2)
    half = Z95 * math.sqrt(spread) / shrink
    return Interval(max(0.0, min(rate, centre - half)), rate, min(1.0, max(rate, centre + half)))


def add_noise(figure: Interval, deviation: float) -> Interval:
    """The same figure where noise of that standard deviation was added to it."""
    below = math.hypot(figure.value - figure.low, Z95 * deviation)
    above = math.hypot(figure.high - figure.value, Z95 * deviation)
    value = figure.value
    return Interval(max(0.0, value - below), value, min(1.0, value + above))


def clustered_interval(tasks: Mapping[str, tuple[int, int]]) -> Interval:
    """The interval of a success rate whose episodes come from tasks: (successes, episodes) each.

    With one episode per task it is Wilson's; repeats of the same tasks narrow it only as far as
    they differ, for they tell nothing about other tasks.
    """
    counts = [tasks[name] for name in sorted(tasks)]
    episodes = sum(played for _, played in counts)
    if episodes <= 0:
        return rate_interval(0.0, 0.0)
    return rate_interval(sum(won for won, _ in counts) / episodes, effective_episodes(counts))


def effective_episodes(tasks: Collection[tuple[int, int]]) -> float:
    """The effective sample size of the episodes of several tasks.

    Episodes divided by the design effect: the variance of the ratio estimator over tasks, divided
    by that of as many independent episodes. With few tasks the estimate is poor, so Korn and
    Graubard's factor reduces it by the ratio of Student's points. The effect is at least 1
    (episodes of a task never differ more than independent ones), and at most that of tasks whose
    episodes all end alike, which is assumed where none or all succeeded.
    """
    played = [(won, count) for won, count in tasks if count > 0]
    episodes = sum(count for _, count in played)
    if episodes == len(played):
        return float(episodes)
    rate = sum(won for won, _ in played) / episodes
    most = sum(count * count for _, count in played) / episodes
    if 0 < rate < 1 and len(played) > 1:
        squares = sum((won - rate * count) ** 2 for won, count in played)
        between = squares * len(played) / (len(played) - 1) / episodes**2
        effect = min(max(1.0, between * (episodes - 1) / (rate * (1 - rate))), most)
    else:
        effect = most
    surety = _student_quantile(episodes - 1) / _student_quantile(max(1, len(played) - 1))
    return episodes / effect * surety**2


def _student_quantile(freedom: int) -> float:
    """The 97.5 % point of Student's distribution, by Cornish and Fisher's series."""
    if freedom <= len(_T95):
        return _T95[freedom - 1]
    z = Z95
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


def average(ratios: Mapping[str, float], names: Collection[str]) -> float | None:
    """Mean over all of these; None while one is unknown, for a mean of some would change again."""
    known = [ratios[name] for name in names if name in ratios]
    return sum(known) / len(known) if known and len(known) == len(names) else None


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
