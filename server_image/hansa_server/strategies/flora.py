"""Stacking (FLoRA): every update joins the frozen part whole, and training starts afresh.

The sum is exact until the frozen part exceeds maxRank; then it is recompressed, and the
diagnostics say what that cost. Clients carry the frozen part along: it costs them its rank.
"""

from collections.abc import Callable

from hansa.adapter import lora
from hansa.api.strategies import FrozenOptions
from hansa_server.factors import Term
from hansa_server.merge_input import Merge, Merged, MergeInput, Pair
from hansa_server.plugin import StrategyPlugin
from hansa_server.strategies.terms import bounded, frozen_terms, keeps_old, mean_terms

Terms = Callable[[MergeInput, str], list[Term]]
"""What is stacked of a layer."""


class Flora(StrategyPlugin):
    """Training starts afresh each round."""

    options: FrozenOptions

    def merge(self, task: MergeInput) -> Merge:
        """The frozen part with the mean of all updates stacked onto it."""
        return folded(task, mean_terms, self.options.max_rank)


def folded(task: MergeInput, terms_of: Terms, max_rank: int) -> Merge:
    """The frozen part with these terms stacked onto it, and an untrained part beside it."""
    grown = task.frozen_rank + (len(task.updates) + keeps_old(task)) * task.rank
    rank = min(grown, max_rank)

    def layer(module: str) -> Merged:
        terms = [*frozen_terms(task, module), *terms_of(task, module)]
        frozen, squares = bounded(terms, rank)
        return Merged(trained=_fresh(task, module), frozen=frozen, **squares._asdict())

    return Merge(layer=layer, frozen_rank=rank)


def stacked(task: MergeInput, terms_of: Terms = mean_terms) -> Merge:
    """All updates side by side as one adapter of the task's rank, which nobody trains on from."""

    def layer(module: str) -> Merged:
        trained, squares = bounded(terms_of(task, module), task.rank)
        return Merged(trained=trained, **squares._asdict())

    return Merge(layer=layer, frozen_rank=task.frozen_rank)


def _fresh(task: MergeInput, module: str) -> Pair:
    names = lora.tensor_names(module)
    shapes = {name: task.start.layout[name].shape for name in names}
    drawn = lora.init_adapter(shapes, task.rank, task.seed, task.round)
    return Pair(drawn[names.a].astype(float), drawn[names.b].astype(float))
