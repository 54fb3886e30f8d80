"""Whether a failed Job is tried again, whether that counts, and how long to wait before."""

from dataclasses import dataclass

from hansa.api.jobs import ObservedJob
from hansa.core import exits

MAX_DELAY_SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class RetryDecision:
    """What happens after a failure."""

    again: bool
    """Whether there is another attempt."""
    counted: bool
    """Whether the failure counts against participation.retries."""


def after_failure(
    *, exit_code: int | None, disrupted: bool, cannot_start: bool, failures: int, retries: int
) -> RetryDecision:
    """The verdict on one failure, `failures` having been counted before it.

    A disruption is nobody's fault and a dead store heals: neither counts, the deadline ends both.
    """
    if cannot_start:
        return RetryDecision(again=False, counted=True)
    facts = exits.facts(exit_code)
    if disrupted or (facts.retriable and not facts.counted):
        return RetryDecision(again=True, counted=False)
    again = facts.retriable and failures < retries
    return RetryDecision(again=again, counted=True)


def of_job(job: ObservedJob, *, failures: int, retries: int) -> tuple[str, bool]:
    """Why a Job has not done its work, and whether another is worth it.

    Of those that belong to no round: one that ended well without a word is simply made again.
    """
    if job.state == "succeeded":
        return "its report was lost", True
    verdict = after_failure(
        exit_code=job.exit_code,
        disrupted=job.reason == "Disrupted",
        cannot_start=job.reason == "CannotStart",
        failures=failures,
        retries=retries,
    )
    return job.message or exits.facts(job.exit_code).help, verdict.again


def delay_seconds(attempt: int) -> int:
    """Pause before the next attempt: 1, 2, 4, ... seconds, at most a minute."""
    return int(min(MAX_DELAY_SECONDS, 2 ** min(attempt - 1, 10)))
