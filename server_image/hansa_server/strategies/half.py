"""The mean of one half while the other stays as it was, which makes the mean of B·A exact.

FFA-LoRA never trains A; RoLoRA trains B in odd rounds and A in even ones. Clients train the same
half (hansa.api.aggregation says which); the gate refuses an update that changed the other one.
"""

from hansa_server.elementwise import by_element, weighted
from hansa_server.merge_input import Merge, MergeInput


def half(task: MergeInput) -> Merge:
    """The mean of the half that this round trains."""
    rule = weighted(task, [update.weight for update in task.updates])
    return by_element(task, rule, task.settings.half(task.round))
