"""The mean of A and of B, element by element: Fed-SE's rule, and FedIT's when weighted.

The product of the means is not the mean of the products: mean(B)·mean(A) has cross terms.
One hostile member can move the result as far as it likes: a mean is not robust, and weights come
from what each member says of itself.
"""

from dataclasses import replace

from hansa_server.elementwise import make_mean_rule, make_stretch_mean, merge_by_element
from hansa_server.merge_input import Merge, MergeInput
from hansa_server.plugin import StrategyPlugin


class Mean(StrategyPlugin):
    """By the members' weights, which are all 1 unless the settings weigh."""

    def merge(self, task: MergeInput) -> Merge:
        """Tensor by tensor, or straight through the data where all files lie alike."""
        weights = [update.weight for update in task.updates]
        by_tensor = merge_by_element(task, make_mean_rule(task, weights))
        return replace(by_tensor, stretch=make_stretch_mean(task, weights))
