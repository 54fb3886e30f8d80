"""Seeds as tasks: a range of numbers for each split, none of them in two."""

from __future__ import annotations

from collections.abc import Mapping

from hansa_worlds.base import SPLITS, Split
from hansa_worlds.errors import OptionError
from hansa_worlds.options import Options

MOST_SEEDS = 1_000_000
Ends = tuple[int, int]
"""The first seed, and the one after the last."""


def read_seeds(read: Options, defaults: Mapping[Split, Ends]) -> dict[Split, range]:
    """The options train, validation and test; `check_apart` follows when all options are read."""
    return {split: _range(read, split, defaults[split]) for split in SPLITS}


def check_apart(seeds: Mapping[Split, range]) -> None:
    """Refuse splits that share a seed."""
    for split, some in seeds.items():
        for other, others in seeds.items():
            if split != other and max(some[0], others[0]) <= min(some[-1], others[-1]):
                raise OptionError(
                    f"options.{split}: got {[some[0], some[-1] + 1]}, expected seeds apart from"
                    f" options.{other} ({[others[0], others[-1] + 1]})"
                )


def _range(read: Options, name: Split, default: Ends) -> range:
    ends = read.integers(name, default, 0, MOST_SEEDS)
    if len(ends) != 2 or ends[0] >= ends[1]:
        read.refuse(name, str(list(ends)), "the first seed and the one after the last")
        return range(*default)
    return range(*ends)
