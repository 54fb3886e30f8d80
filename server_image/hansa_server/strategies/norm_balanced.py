"""The mean of changes made equally long, so that no environment dominates by training harder.

Every change is scaled to the median length of those that moved; of two that is the shorter, for the
longer would set their mean. It bounds how far one member can pull, not where to: a member that
points the wrong way still has its share.
"""

import statistics
from collections.abc import Sequence

from hansa_server.elementwise import make_move_rule, merge_by_element
from hansa_server.merge_input import Merge, MergeInput
from hansa_server.plugin import StrategyPlugin


class NormBalanced(StrategyPlugin):
    """Who did not move stays still."""

    def merge(self, task: MergeInput) -> Merge:
        """The start, moved by the mean of the balanced changes."""
        return merge_by_element(task, make_move_rule(task, balanced(task, task.shares)))


def balanced(task: MergeInput, factors: Sequence[float]) -> list[float]:
    """The factors of changes, times what makes each change as long as the median one."""
    moving = [update.norm for update in task.updates if update.norm]
    length = statistics.median_low(moving) if moving else 0.0
    return [
        factor * length / update.norm if update.norm else 0.0
        for update, factor in zip(task.updates, factors, strict=True)
    ]
