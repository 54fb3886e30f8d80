"""Means over seeds and their 95 % intervals.

Two things are uncertain: which seeds were drawn, and how an adapter would do on more episodes. The
bootstrap draws both: seeds with replacement, and for each drawn run a success rate that its
episodes allow (Jeffreys' posterior, whose interval is close to Wilson's). With one seed only the
second is left, and nothing is said about other seeds; with three the first is rough.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hansa.core.stats import Interval

DRAWS = 4000
_SEED = 20_08_1358  # the first Diet of the Hansa; any fixed number would do


@dataclass(frozen=True)
class Rate:
    """One adapter in one environment."""

    success: float
    """Share of the episodes that succeeded."""
    effective: float
    """Independent episodes behind it."""
    weight: float
    """Episodes, by which the micro average counts it."""
    greedy: float | None = None
    """Share of the tasks that it solves greedily, where that was played."""


Sample = Mapping[str, Rate]
"""One run: its rates by environment."""


@dataclass(frozen=True)
class Summary:
    """A method over its seeds."""

    environments: dict[str, Interval]
    """By environment."""
    macro: Interval
    """Every environment counts alike."""
    micro: Interval
    """Every episode counts alike."""
    seeds: int
    """Runs behind it."""
    greedy: float | None = None
    """Mean over seeds and environments of what is solved greedily; absent where one was not."""


def summarize(samples: Mapping[int, Sample]) -> Summary:
    """The means over seeds; all samples have the same environments."""
    names = sorted(next(iter(samples.values())))
    runs = [samples[seed] for seed in sorted(samples)]
    means, drawn = _means(runs, names), _draw_samples(runs, names)
    columns = {name: _interval(means[i], drawn[:, i]) for i, name in enumerate(names)}
    return Summary(
        environments=columns,
        macro=_interval(means[-2], drawn[:, -2]),
        micro=_interval(means[-1], drawn[:, -1]),
        seeds=len(runs),
        greedy=average([rate.greedy for run in runs for rate in run.values()]),
    )


def average(shares: Sequence[float | None]) -> float | None:
    """Their mean, where all are known."""
    known = [share for share in shares if share is not None]
    return sum(known) / len(known) if known and len(known) == len(shares) else None


def estimate_difference(
    samples: Mapping[int, Sample], reference: Mapping[int, Sample]
) -> Interval | None:
    """How much higher the macro average is than the reference's, over the seeds that both have.

    Seeds are drawn in pairs. Both played the same tasks with the same random seeds, but
    their rates are drawn as if they had not: if anything, the interval is too wide.
    """
    seeds = sorted(samples.keys() & reference.keys())
    if not seeds:
        return None
    names = sorted(next(iter(samples.values())))
    ours, theirs = ([of[seed] for seed in seeds] for of in (samples, reference))
    value = _means(ours, names)[-2] - _means(theirs, names)[-2]
    drawn = _draw_samples(ours, names)[:, -2] - _draw_samples(theirs, names, stream=1)[:, -2]
    return _interval(value, drawn)


def _means(runs: Sequence[Sample], names: Sequence[str]) -> list[float]:
    """Mean success in each environment, then macro and micro average."""
    columns = [sum(run[name].success for run in runs) / len(runs) for name in names]
    micro = sum(
        sum(run[n].success * run[n].weight for n in names) / sum(run[n].weight for n in names)
        for run in runs
    )
    return [*columns, sum(columns) / len(columns), micro / len(runs)]


def _draw_samples(
    runs: Sequence[Sample], names: Sequence[str], stream: int = 0
) -> NDArray[np.float64]:
    """Bootstrap draws of the same figures, one row each; equal seeds are drawn for all methods."""
    # RandomState's streams never change between versions of numpy; those of Generator may.
    chosen = np.random.RandomState(_SEED).randint(0, len(runs), size=(DRAWS, len(runs)))
    episodes = np.random.RandomState(_SEED + 1 + stream)
    won = np.array([[run[n].success * run[n].effective for n in names] for run in runs])
    all_ = np.array([[run[n].effective for n in names] for run in runs])
    weight = np.array([[run[n].weight for n in names] for run in runs])
    rates = episodes.beta(won[chosen] + 0.5, (all_ - won)[chosen] + 0.5)
    columns = rates.mean(axis=1)
    macro = columns.mean(axis=1, keepdims=True)
    shares = weight / weight.sum(axis=1, keepdims=True)
    micro = (rates * shares[chosen]).sum(axis=2).mean(axis=1, keepdims=True)
    return np.concatenate([columns, macro, micro], axis=1)


def _interval(value: float, drawn: NDArray[np.float64]) -> Interval:
    low, high = np.percentile(drawn, [2.5, 97.5])
    return Interval(
        round(min(float(low), value), 4), round(value, 4), round(max(float(high), value), 4)
    )
