"""Whether a new global adapter has fallen behind the best one, and which that is.

Only figures on validation tasks count, and only environments that were evaluated at both adapters:
who joined later, or could not play, must not make a rise or a fall.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hansa.spec import Guard
from hansa.status import HistoryEntry

ACCEPTED = frozenset({"base", "aggregated"})
"""Rounds whose adapter may be gone on from."""
ROUNDING = 1e-9
"""A fall of exactly maxDrop is none, however its fractions were added."""


@dataclass(frozen=True)
class Fall:
    """An adapter that is too much worse than the best one."""

    judged: int
    """Round of the adapter."""
    best: HistoryEntry
    """Round to go back to."""
    message: str
    """By how much it is worse."""


def judge(guard: Guard | None, history: Sequence[HistoryEntry], round_: int) -> Fall | None:
    """The fall of the adapter of a round, if it is one."""
    judged = next((entry for entry in history if entry.round == round_), None)
    if guard is None or not guard.acts or judged is None:
        return None
    best = _best(history, judged)
    if best is None:
        return None
    worst = max(_drops(guard, best, judged), key=lambda drop: drop[1] - drop[2])
    where, before, after = worst
    if before - after <= guard.max_drop + ROUNDING:
        return None
    message = (
        f"{where} fell from {before:.1%} (round {best.round}) to {after:.1%} "
        f"(round {round_}), more than guard.maxDrop {guard.max_drop:g}"
    )
    return Fall(round_, best, message)


def best_adapter(
    guard: Guard | None, history: Sequence[HistoryEntry], last: int
) -> HistoryEntry | None:
    """The adapter to end with: the highest on validation tasks of who could judge the last one.

    Who has left meanwhile, or could not play the last one, must not make an old one win. Where
    nobody could, those that most have played are compared.
    """
    if guard is None or not guard.acts:
        return None
    known = [e for e in history if e.outcome == "aggregated" and e.validation]
    newest = next((entry for entry in known if entry.round == last), None)
    if newest is None:
        return max(known, key=lambda e: _height(e, list(e.validation)), default=None)
    fair = [entry for entry in known if _common(entry, newest)]
    return max(fair, key=lambda e: _height(e, _common(e, newest)))


def _best(history: Sequence[HistoryEntry], judged: HistoryEntry) -> HistoryEntry | None:
    """The best of the others; one that shares more environments is the better measure."""
    others = [
        entry
        for entry in history
        if entry.outcome in ACCEPTED and entry is not judged and _common(entry, judged)
    ]
    return max(others, key=lambda e: _height(e, _common(e, judged)), default=None)


def _height(entry: HistoryEntry, names: Sequence[str]) -> tuple[int, float, int]:
    return len(names), _mean(entry, names), -entry.round


def _common(one: HistoryEntry, other: HistoryEntry) -> list[str]:
    return sorted(one.validation.keys() & other.validation.keys())


def _mean(entry: HistoryEntry, names: Sequence[str]) -> float:
    return sum(entry.validation[name] for name in names) / len(names)


def _drops(
    guard: Guard, best: HistoryEntry, judged: HistoryEntry
) -> list[tuple[str, float, float]]:
    """What is compared: a name for it, the best adapter's success, and the judged one's."""
    names = _common(best, judged)
    if guard.scope == "mean":
        return [("mean validation success", _mean(best, names), _mean(judged, names))]
    return [(f"validation success of {n}", best.validation[n], judged.validation[n]) for n in names]
