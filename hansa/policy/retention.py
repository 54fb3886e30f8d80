"""Which Jobs are deleted: those nobody waits for, and finished ones of rounds long closed."""

from collections.abc import Iterable, Mapping, Set

from hansa.jobs import ObservedJob

KEEP_ROUNDS = 1
MANY = ("courier", "tracker")
"""Roles of which one round may have many Jobs, counted through all rounds."""


def to_delete(observed: Iterable[ObservedJob], wanted: Set[str], round_: int) -> list[str]:
    """Names of the Jobs to delete, sorted.

    Finished Jobs of the newest rounds stay, so that their logs can be read in the morning; of
    couriers and trackers, which a round may have many of, the newest.
    """
    jobs = list(observed)
    newest = {
        role: max((job.attempt for job in jobs if job.role == role), default=0) for role in MANY
    }
    return sorted(
        job.name
        for job in jobs
        if job.name not in wanted
        and (job.is_active or job.round < round_ - KEEP_ROUNDS or _is_old(job, newest))
    )


def _is_old(job: ObservedJob, newest: Mapping[str, int]) -> bool:
    return job.role in newest and job.attempt < newest[job.role] - 1
