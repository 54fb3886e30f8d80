"""Whether a failed Job is tried again, whether that counts, and how long to wait before."""

from dataclasses import dataclass

from hansa import exits

MAX_DELAY_SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What happens after a failure."""

    again: bool
    """Whether there is another attempt."""
    counted: bool
    """Whether the failure counts against participation.retries."""


def after_failure(
    *, exit_code: int | None, disrupted: bool, cannot_start: bool, failures: int, retries: int
) -> Verdict:
    """The verdict on one failure, `failures` having been counted before it.

    A disruption is nobody's fault and a dead store heals: neither counts, the deadline ends both.
    """
    if cannot_start:
        return Verdict(again=False, counted=True)
    facts = exits.facts(exit_code)
    if disrupted or (facts.retriable and not facts.counted):
        return Verdict(again=True, counted=False)
    again = facts.retriable and failures < retries
    return Verdict(again=again, counted=True)


def delay_seconds(attempt: int) -> int:
    """Pause before the next attempt: 1, 2, 4, ... seconds, at most a minute."""
    return int(min(MAX_DELAY_SECONDS, 2 ** min(attempt - 1, 10)))
