"""The mean of A and of B, element by element: Fed-SE's rule, and FedIT's when weighted.

The product of the means is not the mean of the products: mean(B)·mean(A) has cross terms.
One hostile member can move the result as far as it likes: a mean is not robust, and weights come
from what each member says of itself.
"""

from dataclasses import replace

from hansa_server.elementwise import by_element, straight, weighted
from hansa_server.merge_input import Merge, MergeInput


def mean(task: MergeInput) -> Merge:
    """By the members' weights, which are all 1 unless the settings weigh."""
    weights = [update.weight for update in task.updates]
    by_tensor = by_element(task, weighted(task, weights))
    return replace(by_tensor, stretch=straight(task, weights))
