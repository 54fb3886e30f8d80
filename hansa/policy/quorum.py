"""Whether a round may be aggregated, must wait, is empty or has failed."""

from typing import Literal

from hansa.api import ANSWERED
from hansa.status import CurrentRound

Decision = Literal["wait", "aggregate", "empty", "fail"]


def decide(*, updated: int, empty: int, pending: int, minimum: int, timed_out: bool) -> Decision:
    """The decision on a round in which `updated` sent an update, `empty` had nothing to learn from.

    Both have answered: a silo without a success yet must not hold the others up for ever. While
    others are pending, the minimum is enough only after the timeout.
    """
    answered = updated + empty
    if answered + pending < minimum or (timed_out and answered < minimum):
        return "fail"
    if pending and not timed_out:
        return "wait"
    return "aggregate" if updated else "empty"


def minimum(current: CurrentRound) -> int:
    """Answers that a round needs: never more than it has environments, of which some may leave."""
    count = len(current.environments)
    return min(current.participation.minimum_updates or count, count)


def too_few(current: CurrentRound) -> str:
    """What to tell whoever has to fix a round that could not reach its minimum."""
    failed = [f"{e.name} ({e.message})" for e in current.environments if e.state == "Failed"]
    answered = sum(e.state in ANSWERED for e in current.environments)
    return (
        f"round {current.round}: {answered} of {len(current.environments)} environments answered, "
        f"participation.minimumUpdates needs {minimum(current)}; "
        f"failed: {'; '.join(failed) or 'none'}. "
        "Mend them or lower the minimum, then change the spec or run `hansa retry`"
    )
