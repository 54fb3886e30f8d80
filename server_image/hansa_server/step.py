"""The server step that fits a round's updates: `aggregation.serverStep: auto` (FedExP).

The mean of K orthogonal changes contains only a K-th of each. The step compensates for that as far
as the changes differ, and is 1 where they agree: max(1, sum of p|c|^2 / (2 |sum of p c|^2)), with c
the change of a member and p its share (Jhunjhunwala, Wang and Joshi, 2023).
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from hansa.adapter import lora
from hansa_server.elementwise import BLOCK, split_range
from hansa_server.merge import WORKERS
from hansa_server.merge_input import MergeInput
from hansa_server.strategies.norm_balanced import balanced

MOST = 4.0
"""The largest step. Noise makes updates differ, too, and more so with more members: forty members
of five kinds led to 8 to 10, which ruined the agent; 4 was the best for all sizes.
"""
DIGITS = 3
"""Decimals of a step: more would depend on the order in which a processor adds."""


def fit_step(task: MergeInput, factor: float = 1.0) -> MergeInput:
    """The input with a number for its step; a guard sets the factor after a rollback."""
    if task.settings.server_step != "auto":
        return task
    step = round(compute_step(task) * factor, 2 * DIGITS)
    return replace(task, settings=task.settings.model_copy(update={"server_step": step}))


def compute_step(task: MergeInput) -> float:
    """The step by the formula, limited by MOST and the number of members.

    With their number as the step the result is the sum of changes. Without limits, changes that
    cancel by chance or by attack would lead to an arbitrarily large step.
    """
    scales = [1.0] * len(task.updates)
    if task.settings.strategy == "norm-balanced":
        scales = balanced(task, scales)
    half = task.settings.half(task.round)
    names = [name for name in task.start.layout if half in ("both", lora.side(name))]
    with ThreadPoolExecutor(WORKERS) as pool:
        squares = np.array(list(pool.map(lambda name: _sum_squares(task, name, scales), names)))
    apart, together = squares.sum(axis=0).tolist() if names else (0.0, 0.0)
    most = min(MOST, float(sum(share > 0 for share in task.shares)))
    if not apart:
        return 1.0
    return round(max(1.0, min(most, apart / (2 * together) if together else most)), DIGITS)


def _sum_squares(task: MergeInput, name: str, scales: Sequence[float]) -> tuple[float, float]:
    """Mean squared length of a tensor's changes, and squared length of their mean."""
    apart = together = 0.0
    for begin, end in split_range(int(np.prod(task.start.layout[name].shape)), BLOCK):
        start = task.start.values(name, begin, end).astype(np.float64)
        mean = np.zeros(end - begin)
        for update, share, scale in zip(task.updates, task.shares, scales, strict=True):
            change = update.file.values(name, begin, end) - start
            change *= scale
            apart += share * float(np.dot(change, change))
            change *= share
            mean += change
        together += float(np.dot(mean, mean))
    return apart, together
