"""Timeouts of a round; none runs before its start."""

from datetime import datetime, timedelta

from hansa.api.spec import MAX_SECONDS, FederationSpec, Participation
from hansa.api.status import FederationStatus


def choose_participation(
    spec: FederationSpec, status: FederationStatus, evaluated: int
) -> Participation:
    """Timeouts of a round that opens now, or of the evaluation of a round's adapter (0: none).

    Where silos train alone after the last round, from it or from scratch, they get more time.
    """
    rules = spec.participation
    on = evaluated if spec.personalization in ("finetune", "best") else 0
    anew = status.completed if spec.evaluation.alone else 0
    if not evaluated or not on + anew:
        return rules
    seconds = min(rules.round_timeout_seconds * (1 + on + anew), MAX_SECONDS)
    return rules.model_copy(update={"round_timeout_seconds": seconds})


def compute_end(started_at: datetime | None, seconds: int) -> datetime | None:
    """The end of a span, or nothing while it has not begun."""
    return started_at + timedelta(seconds=seconds) if started_at else None


def is_over(end: datetime | None, now: datetime) -> bool:
    """Whether the span has ended."""
    return end is not None and now >= end


def find_earliest(*moments: datetime | None) -> datetime | None:
    """The next moment at which a clock runs out, if any runs."""
    running = [moment for moment in moments if moment is not None]
    return min(running, default=None)
