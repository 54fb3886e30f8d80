"""The mean of one half while the other stays as it was, which makes the mean of B·A exact.

FFA-LoRA never trains A; RoLoRA trains B in odd rounds and A in even ones. Clients train the same
half (hansa.api.strategies says which); the gate refuses an update that changed the other one.
"""

from hansa_server.elementwise import make_mean_rule, merge_by_element
from hansa_server.merge_input import Merge, MergeInput
from hansa_server.plugin import StrategyPlugin


class HalfMean(StrategyPlugin):
    """`ffa` and `rolora` differ only in which half a round trains."""

    def merge(self, task: MergeInput) -> Merge:
        """The mean of the half that this round trains."""
        rule = make_mean_rule(task, [update.weight for update in task.updates])
        return merge_by_element(task, rule, task.settings.half(task.round))
