"""Which Jobs are deleted: those nobody waits for, and finished ones of rounds long closed."""

from collections.abc import Iterable, Set

from hansa.jobs import ObservedJob

KEEP_ROUNDS = 1


def to_delete(observed: Iterable[ObservedJob], wanted: Set[str], round_: int) -> list[str]:
    """Names of the Jobs to delete, sorted.

    Finished Jobs of the newest rounds stay, so that their logs can be read in the morning.
    """
    return sorted(
        job.name
        for job in observed
        if job.name not in wanted and (job.is_active or job.round < round_ - KEEP_ROUNDS)
    )
