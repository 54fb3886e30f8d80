"""Which Jobs are deleted: those nobody waits for, and finished ones of old rounds."""

from collections.abc import Iterable, Set

from hansa.api.jobs import ObservedJob

KEEP_ROUNDS = 1


def list_deletable(observed: Iterable[ObservedJob], wanted: Set[str], round_: int) -> list[str]:
    """Names of the Jobs to delete, sorted.

    Finished Jobs of the newest rounds stay for their logs; of couriers, of which a round may have
    many, only the newest.
    """
    jobs = list(observed)
    newest = max((job.attempt for job in jobs if job.role == "courier"), default=0)
    return sorted(
        job.name
        for job in jobs
        if job.name not in wanted
        and (job.is_active or job.round < round_ - KEEP_ROUNDS or _is_old(job, newest))
    )


def _is_old(job: ObservedJob, newest: int) -> bool:
    """Whether it is a courier, which are counted through all rounds, and two newer ones exist."""
    return job.role == "courier" and job.attempt < newest - 1
