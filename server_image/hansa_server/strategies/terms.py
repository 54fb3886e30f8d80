"""What the strategies on products share: the step as a sum of terms, and the bound on rank."""

from collections.abc import Sequence

import numpy as np

from hansa_server.factors import Squares, Term, compress, make_file_term, stack
from hansa_server.merge_input import MergeInput, Pair


def mean_terms(task: MergeInput, module: str) -> list[Term]:
    """old + serverStep·(mean of B·A - old) of one layer, as terms."""
    step = task.step
    terms = [
        make_file_term(update.file, module, step * share)
        for update, share in zip(task.updates, task.shares, strict=True)
    ]
    if keeps_old(task):
        terms.insert(0, make_file_term(task.start, module, 1.0 - step))
    return terms


def keeps_old(task: MergeInput) -> bool:
    """Whether a share of the old trainable part belongs to the sum."""
    return task.step != 1.0 and not task.is_untrained


def frozen_terms(task: MergeInput, module: str) -> list[Term]:
    """What is frozen already."""
    return [make_file_term(task.frozen, module)] if task.frozen else []


def bounded(terms: Sequence[Term], rank: int) -> tuple[Pair, Squares]:
    """The sum as one pair of that rank: as it is where it fits, else recompressed."""
    missing = rank - sum(term.rank for term in terms)
    if missing < 0:
        return compress(terms, rank)
    a, b = stack(terms)
    padded = Pair(np.pad(a, ((0, missing), (0, 0))), np.pad(b, ((0, 0), (0, missing))))
    return padded, Squares()
