"""The best adapter of rank r for the mean of the products B·A (FlexLoRA's rule).

What rank r cannot hold is lost; the diagnostics say how much. The step is taken on the product, so
a step of 2 doubles the change of the weights themselves.
"""

import numpy as np

from hansa_server.factors import compress, make_file_term
from hansa_server.merge_input import Merge, Merged, MergeInput, Pair
from hansa_server.plugin import StrategyPlugin
from hansa_server.strategies.terms import mean_terms


class ProductSvd(StrategyPlugin):
    """Nothing is ever multiplied out."""

    def merge(self, task: MergeInput) -> Merge:
        """From the singular vectors of the stacked factors."""

        def layer(module: str) -> Merged:
            pair, squares = compress(mean_terms(task, module), task.rank)
            return Merged(trained=_alive(task, module, pair), **squares._asdict())

        return Merge(layer=layer, frozen_rank=task.frozen_rank)


def _alive(task: MergeInput, module: str, pair: Pair) -> Pair:
    """Where the sum lacks a direction, A keeps the start's row: zero in both would never learn."""
    empty = ~np.any(pair.a, axis=1)
    if empty.any():
        start = make_file_term(task.start, module)
        pair.a[empty] = start.columns(0, start.size[1], None)[empty]
    return pair
