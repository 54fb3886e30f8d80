"""Value by value without the extremes: the trimmed mean and the median.

They withstand hostile members while those are fewer than what is cut at each end. They look at A
and B apart, so they depend on the basis, and honest members of very different worlds are cut too.
"""

from hansa.api.strategies import TrimmedMeanOptions
from hansa_server.elementwise import (
    average_middle,
    choose_stack_block,
    make_stack_rule,
    merge_by_element,
)
from hansa_server.merge_input import Merge, MergeInput
from hansa_server.plugin import StrategyPlugin


class TrimmedMean(StrategyPlugin):
    """The share of `trim` is rounded down to whole members."""

    options: TrimmedMeanOptions

    def merge(self, task: MergeInput) -> Merge:
        """The mean without that many members at each end."""
        count = len(task.updates)
        return _without(task, min(int(self.options.trim * count), (count - 1) // 2))


class Median(StrategyPlugin):
    """Of an even number of members, between the two middle ones."""

    def merge(self, task: MergeInput) -> Merge:
        """The middle value, or the mean of the two middle ones."""
        return _without(task, (len(task.updates) - 1) // 2)


def _without(task: MergeInput, cut: int) -> Merge:
    rule = make_stack_rule(task, lambda rows: average_middle(rows, cut))
    return merge_by_element(task, rule, block=choose_stack_block(task))
