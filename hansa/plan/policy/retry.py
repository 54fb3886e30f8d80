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


def judge_failure(job: ObservedJob, *, failures: int, retries: int) -> RetryDecision:
    """The decision on a Job that failed, `failures` having been counted before it.

    Disruptions and outages of the store do not count: the deadline of the round ends both.
    """
    if job.reason == "CannotStart":
        return RetryDecision(again=False, counted=True)
    facts = exits.get_facts(job.exit_code)
    if job.reason == "Disrupted" or (facts.retriable and not facts.counted):
        return RetryDecision(again=True, counted=False)
    return RetryDecision(again=facts.retriable and failures < retries, counted=True)


def explain_failure(job: ObservedJob) -> str:
    """The sentence that a Job failed with, or the help of its exit code."""
    return job.message or exits.get_facts(job.exit_code).help


def delay_seconds(attempt: int) -> int:
    """Pause before the next attempt: 1, 2, 4, ... seconds, at most a minute."""
    return int(min(MAX_DELAY_SECONDS, 2 ** min(attempt - 1, 10)))
