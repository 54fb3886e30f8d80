"""Value by value without the extremes: the trimmed mean and the median.

They withstand hostile members while those are fewer than what is cut at each end. They look at A
and B apart, so they depend on the basis, and honest members of very different worlds are cut too.
"""

from hansa_server.elementwise import by_element, middle, stack_block, stacked
from hansa_server.merge_input import Merge, MergeInput


def trimmed_mean(task: MergeInput) -> Merge:
    """Without aggregation.trim of the members at each end, rounded down."""
    count = len(task.updates)
    return _without(task, min(int(task.settings.trim * count), (count - 1) // 2))


def median(task: MergeInput) -> Merge:
    """The middle value, or the mean of the two middle ones."""
    return _without(task, (len(task.updates) - 1) // 2)


def _without(task: MergeInput, cut: int) -> Merge:
    rule = stacked(task, lambda rows: middle(rows, cut))
    return by_element(task, rule, block=stack_block(task))
