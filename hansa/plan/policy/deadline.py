"""When a clock of a round runs out; no clock runs for what has not started."""

from datetime import datetime, timedelta

from hansa.api.spec import MAX_SECONDS, FederationSpec, Participation
from hansa.api.status import FederationStatus


def rules(spec: FederationSpec, status: FederationStatus, evaluated: int) -> Participation:
    """How long a round that opens now waits, or the evaluation of a round's adapter (0: none).

    Where silos evolve alone after the last round, on or anew, there is time for those rounds.
    """
    rules = spec.participation
    on = evaluated if spec.personalization in ("finetune", "best") else 0
    anew = status.completed if spec.evaluation.alone else 0
    if not evaluated or not on + anew:
        return rules
    seconds = min(rules.round_timeout_seconds * (1 + on + anew), MAX_SECONDS)
    return rules.model_copy(update={"round_timeout_seconds": seconds})


def ends_at(started_at: datetime | None, seconds: int) -> datetime | None:
    """The end of a span, or nothing while it has not begun."""
    return started_at + timedelta(seconds=seconds) if started_at else None


def is_over(end: datetime | None, now: datetime) -> bool:
    """Whether the span has ended."""
    return end is not None and now >= end


def earliest(*moments: datetime | None) -> datetime | None:
    """The next moment at which a clock runs out, if any runs."""
    running = [moment for moment in moments if moment is not None]
    return min(running, default=None)
