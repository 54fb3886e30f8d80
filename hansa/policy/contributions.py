"""What each silo's updates bring the others, kept in the status as silos measure it."""

from collections.abc import Mapping, Sequence

from hansa.contributions import DIGITS, Measured, Votes, Worth, to_others
from hansa.status import FederationStatus
from hansa.words import count

SURE_ROUNDS = 3
"""Measured rounds from which on a silo that costs the others something is worth a warning."""


def record(
    status: FederationStatus, name: str, round_: int, votes: Votes | None, names: Sequence[str]
) -> FederationStatus:
    """The status with what one silo has measured, which is about all rounds so far.

    A silo that evaluates an older adapter once more does not take back what it found since.
    """
    known = {who: each for who, each in (status.contributions or {}).items() if who in names}
    if votes is None or (name in known and round_ < known[name].round):
        return status
    unit = 10**DIGITS
    worth = {
        names[index]: Worth(value=value / unit, error=error / unit, rounds=rounds)
        for index, value, error, rounds in sorted(votes)
    }
    measured = dict(sorted({**known, name: Measured(round=round_, worth=worth)}.items()))
    lines = [
        line.model_copy(update={"contribution": sentence(line.name, measured)})
        for line in status.environments
    ]
    return status.model_copy(update={"contributions": measured, "environments": lines})


def sentence(name: str, measured: Mapping[str, Measured]) -> str:
    """What a silo brings the others, in points with 95 % limits; empty where nobody knows."""
    worth = to_others(name, measured)
    if worth is None:
        return ""
    limits, rounds = worth
    when = f"in {count(rounds, 'round')}"
    if limits.high < 0:
        between = f"{-100 * limits.high:.1f} to {-100 * limits.low:.1f}"
        return f"costs the others {-100 * limits.value:.1f} points ({between}) {when}"
    between = f"{_points(limits.low)} to {_points(limits.high)}"
    brings = f"brings the others {_points(limits.value)} points ({between}) {when}"
    return brings if limits.low > 0 else f"{brings}: no difference shows"


def _points(change: float) -> str:
    return f"{round(100 * change, 1) + 0.0:+.1f}"  # and no -0.0
