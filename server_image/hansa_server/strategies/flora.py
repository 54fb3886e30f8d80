"""Stacking (FLoRA): every update joins the frozen part whole, and training starts afresh.

The sum is exact until the frozen part exceeds aggregation.maxRank; then it is recompressed, and the
diagnostics say what that cost. Clients carry the frozen part along: it costs them its rank.
"""

from collections.abc import Callable

from hansa import adapter
from hansa_server.factors import Term
from hansa_server.strategies.terms import bounded, frozen_terms, keeps_old, mean_terms
from hansa_server.task import Merge, Merged, Pair, Task

Terms = Callable[[Task, str], list[Term]]
"""What is stacked of a layer."""


def flora(task: Task) -> Merge:
    """The frozen part with the mean of all updates stacked onto it."""
    return folded(task, mean_terms)


def folded(task: Task, terms_of: Terms) -> Merge:
    """The frozen part with these terms stacked onto it, and an untrained part beside it."""
    ranks = [
        update.file.layout[adapter.names(task.modules[0]).a].shape[0] for update in task.updates
    ]
    grown = task.frozen_rank + sum(ranks) + (task.rank if keeps_old(task) else 0)
    rank = min(grown, task.settings.max_rank)

    def layer(module: str) -> Merged:
        terms = [*frozen_terms(task, module), *terms_of(task, module)]
        frozen, squares = bounded(terms, rank)
        return Merged(trained=_fresh(task, module), frozen=frozen, **squares._asdict())

    return Merge(layer=layer, frozen_rank=rank)


def stacked(task: Task, terms_of: Terms = mean_terms) -> Merge:
    """All updates side by side as one adapter of the task's rank, which nobody trains on from."""

    def layer(module: str) -> Merged:
        trained, squares = bounded(terms_of(task, module), task.rank)
        return Merged(trained=trained, **squares._asdict())

    return Merge(layer=layer, frozen_rank=task.frozen_rank)


def _fresh(task: Task, module: str) -> Pair:
    names = adapter.names(module)
    shapes = {name: task.start.layout[name].shape for name in names}
    drawn = adapter.start(shapes, task.rank, task.seed, task.round)
    return Pair(drawn[names.a].astype(float), drawn[names.b].astype(float))
