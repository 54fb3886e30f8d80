"""The members nearest to the others: Krum takes one of them, Multi-Krum the mean of several.

They withstand `faulty` hostile members of 2 x faulty + 3. Where the worlds differ much, an honest
member far from the others is left out as well. A round with fewer members withstands fewer.
"""

import numpy as np

from hansa_server.elementwise import by_element, distances, weighted
from hansa_server.merge_input import Merge, MergeInput


def krum(task: MergeInput) -> Merge:
    """The one update with the least distance to those nearest to it."""
    return _chosen(task, 1)


def multi_krum(task: MergeInput) -> Merge:
    """The mean of all updates but the `faulty` farthest."""
    return _chosen(task, len(task.updates) - _faulty(task))


def _chosen(task: MergeInput, count: int) -> Merge:
    order = np.argsort(_scores(task), kind="stable")  # of equals, the first by name
    kept = set(order[:count].tolist())
    weights = [float(index in kept) for index in range(len(task.updates))]
    return by_element(task, weighted(task, weights))


def _scores(task: MergeInput) -> list[float]:
    """Sum of the squared distances to the nearest others, as many as must be honest."""
    nearest = max(1, len(task.updates) - _faulty(task) - 2)
    return [
        float(np.sum(np.sort(np.delete(row, index))[:nearest]))
        for index, row in enumerate(distances(task))
    ]


def _faulty(task: MergeInput) -> int:
    return min(task.settings.faulty, max(0, (len(task.updates) - 3) // 2))
