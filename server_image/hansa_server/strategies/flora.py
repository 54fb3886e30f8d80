"""Stacking (FLoRA): every update joins the frozen part whole, and training starts afresh.

The sum is exact until the frozen part exceeds aggregation.maxRank; then it is recompressed, and the
diagnostics say what that cost. Clients carry the frozen part along: it costs them its rank.
"""

from hansa import adapter
from hansa_server.strategies.terms import bounded, frozen_terms, keeps_old, mean_terms
from hansa_server.task import Merge, Merged, Pair, Task


def flora(task: Task) -> Merge:
    """The frozen part with all updates stacked onto it, and an untrained part beside it."""
    ranks = [
        update.file.layout[adapter.names(task.modules[0]).a].shape[0] for update in task.updates
    ]
    grown = task.frozen_rank + sum(ranks) + (task.rank if keeps_old(task) else 0)
    rank = min(grown, task.settings.max_rank)

    def layer(module: str) -> Merged:
        terms = [*frozen_terms(task, module), *mean_terms(task, module)]
        frozen, squares = bounded(terms, rank)
        return Merged(trained=_fresh(task, module), frozen=frozen, **squares._asdict())

    return Merge(layer=layer, frozen_rank=rank)


def stacked(task: Task) -> Merge:
    """All updates side by side as one adapter of the task's rank, which nobody trains on from."""

    def layer(module: str) -> Merged:
        trained, squares = bounded(mean_terms(task, module), task.rank)
        return Merged(trained=trained, **squares._asdict())

    return Merge(layer=layer, frozen_rank=task.frozen_rank)


def _fresh(task: Task, module: str) -> Pair:
    names = adapter.names(module)
    shapes = {name: task.start.layout[name].shape for name in names}
    drawn = adapter.start(shapes, task.rank, task.seed, task.round)
    return Pair(drawn[names.a].astype(float), drawn[names.b].astype(float))
