"""The means of A and of B, and what they lack of the mean of B·A as a frozen part (FedEx-LoRA).

Exact until the frozen part exceeds maxRank; then that part is recompressed, and the
diagnostics say what it cost. Training continues from the means.
"""

from hansa.api.strategies import FrozenOptions
from hansa_server.elementwise import make_mean_rule, merge_by_element
from hansa_server.factors import Term, make_difference_term, make_file_term, make_pair_term
from hansa_server.merge_input import Merge, Merged, MergeInput, Pair
from hansa_server.plugin import StrategyPlugin
from hansa_server.strategies.terms import bounded, frozen_terms, keeps_old, mean_terms


class FedEx(StrategyPlugin):
    """The mean with its residual; of rank K·r, or (K + 2)·r where the step is not 1."""

    options: FrozenOptions

    def merge(self, task: MergeInput) -> Merge:
        """The means, and a frozen part that grows by what they lack."""
        means = merge_by_element(
            task, make_mean_rule(task, [update.weight for update in task.updates])
        )
        extra = 0 if task.step == 1.0 else 1 + keeps_old(task)
        grown = task.frozen_rank + (len(task.updates) + extra) * task.rank
        rank = min(grown, self.options.max_rank)

        def layer(module: str) -> Merged:
            trained = means.layer(module).trained
            terms = [*frozen_terms(task, module), *_residual(task, module, trained)]
            frozen, squares = bounded(terms, rank)
            return Merged(trained=trained, frozen=frozen, **squares._asdict())

        return Merge(layer=layer, frozen_rank=rank)


def _residual(task: MergeInput, module: str, trained: Pair) -> list[Term]:
    """What the trained part lacks; around the means it is the sum of (B - mean)·(A - mean)."""
    if task.step != 1.0:
        return [*mean_terms(task, module), make_pair_term(trained, -1.0)]
    return [
        make_difference_term(make_file_term(update.file, module), trained, share)
        for update, share in zip(task.updates, task.shares, strict=True)
    ]
