"""Whether a round may be aggregated, must wait, is empty or has failed."""

from typing import Literal

from hansa.api.constants import ANSWERED
from hansa.api.secure_aggregation import LEAST
from hansa.api.status import CurrentRound
from hansa.core.text import count

Decision = Literal["wait", "aggregate", "empty", "fail"]
REMEDY = ". Fix that or lower the minimum, then change the spec or run `hansa retry`"
"""How a sentence about a failed round ends, for those who read nothing else."""


def decide(*, updated: int, empty: int, pending: int, minimum: int, timed_out: bool) -> Decision:
    """The decision on a round in which `updated` sent an update, `empty` had nothing to learn from.

    Both have answered: a silo without a success must not block the others. While others are
    pending, the minimum is enough only after the timeout.
    """
    answered = updated + empty
    if answered + pending < minimum or (timed_out and answered < minimum):
        return "fail"
    if pending and not timed_out:
        return "wait"
    return "aggregate" if updated else "empty"


def compute_minimum(current: CurrentRound) -> int:
    """Answers that a round needs, at most as many as it still has environments.

    A masked sum of too few would reveal their updates, so secure aggregation has its own minimum.
    """
    everybody = len(current.environments)
    wanted = min(current.participation.minimum_updates or everybody, everybody)
    return max(LEAST, wanted) if current.masking else wanted


def explain_failure(current: CurrentRound, *, doubted: bool = False) -> str:
    """Why a round could not reach its minimum, with the causes first.

    Environments that were stopped with the round have not failed. `doubted`: nobody has evaluated
    the start adapter, which may be the cause.
    """
    causes: dict[str, list[str]] = {}
    for e in current.environments:
        if e.state == "Failed":
            causes.setdefault(e.message, []).append(e.name)
    answered = [e.name for e in current.environments if e.state in ANSWERED]
    failed = {name for names in causes.values() for name in names}
    stopped = [e.name for e in current.environments if e.name not in {*failed, *answered}]
    first = "; ".join(f"{', '.join(names)}: {cause}" for cause, names in causes.items())
    names = f" ({', '.join(answered)})" if answered else ""
    rest = f"; {_join_names(stopped)} stopped with it" if stopped else ""
    doubt = (
        f". Nobody has evaluated the adapter of round {current.start.round} yet: if that is the "
        "cause, `hansa rollback` goes back behind it"
    )
    return (
        f"{first}. Round {current.round} failed: {len(answered)} of "
        f"{count(len(current.environments), 'environment')} answered{names}, "
        f"participation.minimumUpdates needs {compute_minimum(current)}{rest}"
        f"{doubt if doubted else ''}{REMEDY}"
    )


def _join_names(names: list[str]) -> str:
    was = "was" if len(names) == 1 else "were"
    return f"{' and '.join(filter(None, [', '.join(names[:-1]), names[-1]]))} {was}"
