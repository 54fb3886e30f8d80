"""The unweighted mean of A and of B, element by element: Fed-SE's rule.

The product of the means is not the mean of the products: mean(B)·mean(A) has cross terms.
One hostile member can move the result as far as it likes: a mean is not robust.
"""

import numpy as np

from hansa.adapter import Tensors
from hansa.spec import Aggregation
from hansa_server.strategies.base import Aggregate, Updates


def mean(start: Tensors, updates: Updates, settings: Aggregation) -> Aggregate:
    """Sum in float64 in sorted order, then divide once."""
    total: Aggregate = {name: np.zeros(start[name].shape) for name in sorted(start)}
    count = 0
    for update in updates:
        count += 1
        for name, array in total.items():
            array += update.tensors[name]
        del update  # or it stays in memory while the next one is read
    for array in total.values():
        array /= count
    return total
