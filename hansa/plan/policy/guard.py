"""Whether a new global adapter has fallen behind the best one, and which that is.

Only figures on validation tasks count, and only environments that were evaluated at both adapters:
who joined later, or could not play, must not make a rise or a fall. But an adapter that nobody
could evaluate has fallen: every retry would break over it again.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hansa.api.constants import ANSWERED, CONCLUDED
from hansa.api.spec import Guard
from hansa.api.status import CurrentRound, GuardStatus, HistoryEntry, RoundEnvironment
from hansa.core import exits
from hansa.plan.policy import drift

ACCEPTED = frozenset({"base", "aggregated"})
"""Rounds whose adapter may be gone on from."""
GONE = frozenset({"rejected", "undone"})
"""Rounds whose adapter was gone back from, by the guard or by a person."""
ROUNDING = 1e-9
"""A fall of exactly maxDrop is none, however its fractions were added."""


VETO_ROUNDS = 5
"""Rounds in which one environment may go back alone once, where each is judged by itself."""


@dataclass(frozen=True)
class Regression:
    """An adapter that is too much worse than the best one."""

    judged: int
    """Round of the adapter."""
    best: HistoryEntry
    """Round to go back to."""
    message: str
    """By how much it is worse."""
    alone: str = ""
    """The environment that fell, where no other did and the mean did not either."""


@dataclass(frozen=True)
class GuardVerdict:
    """What the guard makes of an adapter."""

    fall: Regression | None = None
    """The fall to go back from, if it is one."""
    overruled: str = ""
    """Why one environment's fall does not count."""


def heed(
    guard: Guard | None,
    history: Sequence[HistoryEntry],
    round_: int,
    so_far: GuardStatus | None,
    now: int,
) -> GuardVerdict:
    """The verdict on the adapter of a round, in round `now`.

    Figures are each environment's own word. One that goes back alone is believed once in five
    rounds; then the mean decides, so that one party cannot stop all others.
    """
    fall = judge(guard, history, round_)
    vetoes = so_far.vetoes if so_far else {}
    if fall is None or fall.alone not in vetoes or now - vetoes[fall.alone] >= VETO_ROUNDS:
        return GuardVerdict(fall)
    return GuardVerdict(
        overruled=f"{fall.message}; it has gone back alone before, in round "
        f"{vetoes[fall.alone]}: the mean of all environments decides for {VETO_ROUNDS} rounds"
    )


def judge(guard: Guard | None, history: Sequence[HistoryEntry], round_: int) -> Regression | None:
    """The fall of the adapter of a round, if it is one: in what it can do, or in what it may."""
    judged = next((entry for entry in history if entry.round == round_), None)
    if guard is None or not guard.acts or judged is None:
        return None
    best = _best(_lawful(guard, history), judged)
    if best is None:
        return None
    if drifted := drift.broken(guard, history, judged):
        return Regression(round_, best, drifted)
    names = _common(best, judged)
    mean = _Drop("", _mean(best, names), _mean(judged, names))
    each = [_Drop(name, best.validation[name], judged.validation[name]) for name in names]
    compared = [mean] if guard.scope == "mean" else each
    fallen = [drop for drop in compared if drop.size > guard.max_drop + ROUNDING]
    if not fallen:
        return None
    worst = max(fallen, key=lambda drop: drop.size)
    where = f"validation success of {worst.name}" if worst.name else "mean validation success"
    message = (
        f"{where} fell from {worst.before:.1%} (round {best.round}) to {worst.after:.1%} "
        f"(round {round_}), more than guard.maxDrop {guard.max_drop:g}"
    )
    is_alone = len(fallen) == 1 and mean.size <= guard.max_drop + ROUNDING
    return Regression(round_, best, message, alone=worst.name if is_alone else "")


def is_unevaluated(history: Sequence[HistoryEntry], round_: int) -> bool:
    """Whether nobody has evaluated the adapter of a round; the base is none."""
    return any(e.round == round_ and round_ and not e.success for e in history)


def judge_unevaluated(current: CurrentRound, history: Sequence[HistoryEntry]) -> Regression | None:
    """The fall of the adapter that a round started from and nobody could evaluate, if it is one."""
    rule, round_ = current.guard, current.start.round
    if rule is None or not rule.acts or not is_unevaluated(history, round_):
        return None
    lawful = _lawful(rule, history)
    earlier = [e for e in lawful if e.outcome in ACCEPTED and e.validation and e.round < round_]
    best = max(earlier, key=lambda e: _height(e, list(e.validation)), default=None)
    if best is None or not _is_to_blame(current, history):
        return None
    success = _mean(best, list(best.validation))
    message = (
        f"nobody could evaluate the adapter of round {round_}, while that of round {best.round} "
        f"had {success:.1%} validation success"
    )
    return Regression(round_, best, message)


def awaits(current: CurrentRound, history: Sequence[HistoryEntry]) -> bool:
    """Whether a round that cannot reach its minimum goes on until its start adapter is known.

    One client broke over an adapter that nobody has evaluated; the others are about to.
    """
    rule = current.guard
    if rule is None or not rule.acts or not is_unevaluated(history, current.start.round):
        return False
    states = current.environments
    is_pending = any(e.state not in CONCLUDED for e in states)
    return is_pending and any(_broke(e) for e in states)


def _broke(environment: RoundEnvironment) -> bool:
    return environment.state == "Failed" and exits.is_at_work(environment.exit_code)


def _is_to_blame(current: CurrentRound, history: Sequence[HistoryEntry]) -> bool:
    """Whether a round that learned nothing about its start adapter failed because of it.

    A wrong setting, an image or a store that is not there says nothing about an adapter. Neither
    does one environment: its failure may have stopped the others. But two such rounds do.
    """
    states = current.environments
    if any(e.state in ANSWERED for e in states):
        return current.settings.evaluation.is_due(current.start.round)
    broken = sum(_broke(e) for e in states)
    is_second = history[-1].outcome == "failed" and history[-1].round > current.start.round
    return broken == len(states) or (is_second and broken > 0)


def best_adapter(
    guard: Guard | None, history: Sequence[HistoryEntry], last: int
) -> HistoryEntry | None:
    """The adapter to end with: the highest on validation tasks of who could judge the last one.

    Who has left meanwhile, or could not play the last one, must not make an old one win. Where
    nobody could, those that most have played are compared.
    """
    if guard is None or not guard.acts:
        return None
    lawful = _lawful(guard, history)
    known = [e for e in lawful if e.outcome == "aggregated" and e.validation]
    newest = next((entry for entry in known if entry.round == last), None)
    if newest is None:
        return max(known, key=lambda e: _height(e, list(e.validation)), default=None)
    fair = [entry for entry in known if _common(entry, newest)]
    return max(fair, key=lambda e: _height(e, _common(e, newest)))


def _lawful(guard: Guard, history: Sequence[HistoryEntry]) -> list[HistoryEntry]:
    """Those that a bound which came later than they did would not reject."""
    return [entry for entry in history if not drift.broken(guard, history, entry)]


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


@dataclass(frozen=True)
class _Drop:
    """What is compared: an environment, or the mean without a name, at both adapters."""

    name: str
    before: float
    after: float

    @property
    def size(self) -> float:
        return self.before - self.after
