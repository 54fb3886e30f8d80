"""Seeds as tasks: a range of numbers for each split, none of them in two."""

from collections.abc import Mapping, Sequence

from hansa_worlds.base import SPLITS, Split, Task, TaskList
from hansa_worlds.errors import OptionError
from hansa_worlds.options import Options

MOST_SEEDS = 1_000_000
Ends = tuple[int, int]
"""The first seed, and the one after the last."""
SEEDS: Mapping[Split, Ends] = {
    "test": (0, 1_000),
    "validation": (1_000, 2_000),
    "train": (2_000, 10_000),
}


def read_seeds(
    read: Options, defaults: Mapping[Split, Ends] = SEEDS, what: str = "seed"
) -> dict[Split, range]:
    """The options train, validation and test; `check_disjoint` follows when all are read."""
    return {split: read_range(read, split, defaults[split], what) for split in SPLITS}


def check_disjoint(seeds: Mapping[Split, range], what: str = "seed") -> None:
    """Refuse splits that share a seed."""
    for split, some in seeds.items():
        for other, others in seeds.items():
            if split != other and max(some[0], others[0]) <= min(some[-1], others[-1]):
                raise OptionError(
                    f"options.{split}: got {[some[0], some[-1] + 1]}, expected {what}s apart from"
                    f" options.{other} ({[others[0], others[-1] + 1]})"
                )


def make_tasks(prefix: str, split: Split, seeds: Sequence[int]) -> Sequence[Task]:
    """One task per seed, named by prefix and seed."""
    return TaskList(len(seeds), lambda i: Task(f"{prefix}{seeds[i]}", split, (str(seeds[i]),)))


def read_range(read: Options, name: str, default: Ends, what: str) -> range:
    """An option that is a range, as its first number and the one after its last."""
    ends = read.integers(name, default, 0, MOST_SEEDS)
    if len(ends) != 2 or ends[0] >= ends[1]:
        read.refuse(name, str(list(ends)), f"the first {what} and the one after the last")
        return range(*default)
    return range(*ends)
