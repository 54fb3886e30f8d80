"""The members nearest to the others: Krum takes one of them, Multi-Krum the mean of several.

They withstand `faulty` hostile members of 2 x faulty + 3. Where the worlds differ much, an honest
member far from the others is left out as well. A round with fewer members withstands fewer.
"""

import numpy as np

from hansa.api.strategies import KrumOptions
from hansa_server.elementwise import make_mean_rule, measure_distances, merge_by_element
from hansa_server.merge_input import Merge, MergeInput
from hansa_server.plugin import StrategyPlugin


class Krum(StrategyPlugin):
    """Of equally near members, the first by name counts."""

    options: KrumOptions

    def merge(self, task: MergeInput) -> Merge:
        """The members with the least distance to those nearest to them."""
        faulty = min(self.options.faulty, max(0, (len(task.updates) - 3) // 2))
        order = np.argsort(_scores(task, faulty), kind="stable")
        kept = set(order[: self.count(len(task.updates), faulty)].tolist())
        weights = [float(index in kept) for index in range(len(task.updates))]
        return merge_by_element(task, make_mean_rule(task, weights))

    def count(self, members: int, faulty: int) -> int:
        """How many of them are kept."""
        return 1


class MultiKrum(Krum):
    """The mean of all updates but the `faulty` farthest."""

    def count(self, members: int, faulty: int) -> int:
        """All that must be honest."""
        return members - faulty


def _scores(task: MergeInput, faulty: int) -> list[float]:
    """Sum of the squared distances to the nearest others, as many as must be honest."""
    nearest = max(1, len(task.updates) - faulty - 2)
    return [
        float(np.sum(np.sort(np.delete(row, index))[:nearest]))
        for index, row in enumerate(measure_distances(task))
    ]
