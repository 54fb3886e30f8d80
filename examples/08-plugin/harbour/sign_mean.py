"""Strategy `sign-mean`: value by value, the mean of those changes whose direction most agree on.

Silos that pull a weight in opposite directions cancel each other out in a plain mean. Here the
direction with more weight behind it wins, and only changes in that direction are averaged, as in
TIES-Merging. One hostile member that pulls hard enough decides every direction: it is not robust.
"""

from typing import Annotated

import numpy as np
from pydantic import Field

from hansa.manifests import plugins
from hansa_server.elementwise import choose_stack_block, merge_by_element
from hansa_server.merge_input import Array, Merge, MergeInput
from hansa_server.plugin import StrategyPlugin


class SignMean(StrategyPlugin):
    """Merges what agrees; it is no mean of all updates, so `serverStep: auto` is not for it."""

    class Options(plugins.Options):
        """What stands in spec.aggregation.options."""

        agreement: Annotated[float, Field(ge=0, le=1)] = 0.5
        """Share of the members that must agree on a direction; below it, the value stays."""

    def merge(self, task: MergeInput) -> Merge:
        """Members come sorted, and are added in that order: equal members give equal bytes."""

        def rule(name: str, begin: int, end: int) -> Array:
            start = task.start.values(name, begin, end).astype(np.float64)
            changes = np.stack([u.file.values(name, begin, end) - start for u in task.updates])
            direction = np.sign(changes.sum(axis=0))
            agrees = (np.sign(changes) == direction) & (direction != 0)
            count = agrees.sum(axis=0)
            mean = np.where(agrees, changes, 0.0).sum(axis=0) / np.maximum(count, 1)
            mean[count < self.options.agreement * len(changes)] = 0.0
            return start + mean

        return merge_by_element(task, rule, block=choose_stack_block(task))
