"""Ranges of numbers that stand for tasks: one for each split, none of which meets another."""

from __future__ import annotations

from collections.abc import Mapping

from hansa_worlds.base import Split
from hansa_worlds.errors import OptionError
from hansa_worlds.options import Options

MOST_NUMBERS = 1_000_000


def read_range(read: Options, name: Split, default: tuple[int, int], what: str = "seed") -> range:
    """A split's numbers: options give the first, and the one after the last."""
    ends = read.integers(name, default, 0, MOST_NUMBERS)
    if len(ends) != 2 or ends[0] >= ends[1]:
        read.refuse(name, str(list(ends)), f"the first {what} and the one after the last")
        return range(*default)
    return range(*ends)


def check_apart(ranges: Mapping[Split, range], what: str = "seed") -> None:
    """Refuse splits that share a number."""
    for split, some in ranges.items():
        for other, others in ranges.items():
            if split != other and max(some[0], others[0]) <= min(some[-1], others[-1]):
                raise OptionError(
                    f"options.{split}: got {[some[0], some[-1] + 1]}, expected {what}s apart from"
                    f" options.{other} ({[others[0], others[-1] + 1]})"
                )
