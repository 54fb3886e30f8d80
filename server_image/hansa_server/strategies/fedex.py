"""The means of A and of B, and what they lack of the mean of B·A as a frozen part (FedEx-LoRA).

Exact until the frozen part exceeds aggregation.maxRank; then that part is recompressed, and the
diagnostics say what it cost. Training goes on from the means.
"""

from hansa_server.elementwise import by_element, weighted
from hansa_server.factors import Term, difference, of_file, of_pair
from hansa_server.merge_input import Merge, Merged, MergeInput, Pair
from hansa_server.strategies.terms import bounded, frozen_terms, keeps_old, mean_terms


def fedex(task: MergeInput) -> Merge:
    """The mean with its residual; of rank K·r, or (K + 2)·r where the step is not 1."""
    means = by_element(task, weighted(task, [update.weight for update in task.updates]))
    extra = 0 if task.step == 1.0 else 1 + keeps_old(task)
    grown = task.frozen_rank + (len(task.updates) + extra) * task.rank
    rank = min(grown, task.settings.max_rank)

    def layer(module: str) -> Merged:
        trained = means.layer(module).trained
        terms = [*frozen_terms(task, module), *_residual(task, module, trained)]
        frozen, squares = bounded(terms, rank)
        return Merged(trained=trained, frozen=frozen, **squares._asdict())

    return Merge(layer=layer, frozen_rank=rank)


def _residual(task: MergeInput, module: str, trained: Pair) -> list[Term]:
    """What the trained part lacks; around the means it is the sum of (B - mean)·(A - mean)."""
    if task.step != 1.0:
        return [*mean_terms(task, module), of_pair(trained, -1.0)]
    return [
        difference(of_file(update.file, module), trained, share)
        for update, share in zip(task.updates, task.shares, strict=True)
    ]
