"""Merges of some of a round's updates, so that silos can say what each update is worth.

They are made by the round's own strategy from the files that are here already, one after another,
and stored before the round's manifest, which names them. Once a later round is merged nobody plays
them any more, and they are removed where the aggregator's policy lets it.
"""

from dataclasses import replace

from hansa import contributions, keys
from hansa.assignment import Assignment
from hansa.contributions import Subset, Subsets
from hansa.errors import StoreError
from hansa.logs import Log
from hansa.store.base import ObjectStore
from hansa_server import folder as folder_
from hansa_server.folder import Workplace
from hansa_server.merge import merge, result_shapes
from hansa_server.step import fitted
from hansa_server.task import Task


class _NotMerged(Exception):
    """Some updates that the strategy does not merge."""


def write(
    store: ObjectStore, assignment: Assignment, task: Task, place: Workplace, log: Log
) -> Subsets | None:
    """Merge and store what the settings ask for; nothing where a strategy takes no fewer updates.

    Measuring is no reason to end a round: whoever asked finds the line in the log.
    """
    if not assignment.settings.evaluation.measures_contributions(assignment.round):
        return None
    method = contributions.method(len(assignment.environments))
    names = [update.environment for update in task.updates]
    orders: list[list[str]] = []
    if method == "shapley":
        orders = contributions.orders(names, assignment.seed, assignment.round)
    try:
        adapters = [
            _store(store, assignment, task, place, members, number)
            for number, members in enumerate(contributions.subsets(names, orders))
        ]
    except _NotMerged as error:
        log.warning("contributions_not_measured", message=str(error))
        return None
    log.info("subsets_merged", method=method, subsets=len(adapters))
    return Subsets(method=method, orders=orders, adapters=adapters) if adapters else None


def _store(
    store: ObjectStore,
    assignment: Assignment,
    task: Task,
    place: Workplace,
    members: list[str],
    number: int,
) -> Subset:
    """One merge as the round would have made it of these updates alone, with a step that fits."""
    chosen = replace(
        task,
        updates=[update for update in task.updates if update.environment in members],
        settings=assignment.settings.aggregation,
    )
    try:
        part = fitted(chosen, assignment.settings.step_factor)
        made = merge(part, place.subset, place.subset_state)
    except (MemoryError, OSError):  # this machine's fault: another attempt measures
        raise
    except Exception as error:  # a package's strategy may raise anything for too few updates
        raise _NotMerged(f"{', '.join(members)}: {type(error).__name__}: {error}") from error
    shapes = result_shapes(part, made.frozen_rank)
    key = keys.subset(assignment.storage.prefix, assignment.round, number)
    entry = folder_.store_file(store, key, place.subset, shapes)
    return Subset(members=members, sha256=entry.sha256, size=entry.size)


def remove_old(store: ObjectStore, assignment: Assignment, log: Log) -> None:
    """Remove those of earlier rounds: whoever takes part in this one has played them."""
    if assignment.settings.evaluation.contributions is None:
        return
    root = keys.subsets_root(assignment.storage.prefix)
    try:
        for key in list(store.list(root)):
            round_ = keys.number(root, key)
            if round_ is not None and round_ < assignment.round:
                store.remove(key)
    except StoreError as error:  # they cost room, and no result follows from them
        log.warning("subsets_not_removed", message=error.message)
