"""Whether a new global adapter has fallen behind the best one, and which that is.

Only validation tasks count, and only environments that were evaluated with both adapters: a silo
that joined later, or could not play, must not look like a rise or a fall. An adapter that nobody
could evaluate counts as fallen, since every retry would fail with it again.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hansa.api.constants import ANSWERED, CONCLUDED
from hansa.api.spec import Guard
from hansa.api.status import CurrentRound, FederationStatus, HistoryEntry, RoundEnvironment
from hansa.core import exits
from hansa.plan.policy import drift

ACCEPTED = frozenset({"base", "aggregated"})
"""Rounds whose adapter may be continued from."""
GONE = frozenset({"rejected", "undone"})
"""Rounds whose adapter was rolled back, by the guard or by a person."""
ROUNDING = 1e-9
"""A fall of exactly maxDrop is none, however its fractions were added."""
VETO_ROUNDS = 5
"""One environment alone can cause at most one rollback in this many rounds."""


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


def judge_start_adapter(
    current: CurrentRound, status: FederationStatus
) -> tuple[Regression | None, str]:
    """The regression of a round's start adapter, if it counts, and why one does not count.

    Each environment reports its own figures. One that alone asks for a rollback is believed at most
    once per 5 rounds; otherwise the mean decides, so that one party cannot stop all others.
    """
    fall = judge(current.guard, status.history, current.start.round)
    vetoes = status.guard.vetoes if status.guard else {}
    if fall is None or fall.alone not in vetoes:
        return fall, ""
    last = vetoes[fall.alone]
    if status.round - last >= VETO_ROUNDS:
        return fall, ""
    return None, (
        f"{fall.message}; it alone caused a rollback before, in round {last}: the mean of all "
        f"environments decides for {VETO_ROUNDS} rounds"
    )


def judge(guard: Guard | None, history: Sequence[HistoryEntry], round_: int) -> Regression | None:
    """The regression of a round's adapter, in its success or in its probes, if there is one."""
    judged = next((entry for entry in history if entry.round == round_), None)
    if guard is None or not guard.acts or judged is None:
        return None
    best = _find_best(_list_lawful(guard, history), judged)
    if best is None:
        return None
    if drifted := drift.find_violation(guard, history, judged):
        return Regression(round_, best, drifted)
    names = _list_common(best, judged)
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
    """The regression of a round's start adapter that nobody could evaluate, if it is one."""
    rule, round_ = current.guard, current.start.round
    if rule is None or not rule.acts or not is_unevaluated(history, round_):
        return None
    lawful = _list_lawful(rule, history)
    earlier = [e for e in lawful if e.outcome in ACCEPTED and e.validation and e.round < round_]
    best = max(earlier, key=lambda e: _rank(e, list(e.validation)), default=None)
    if best is None or not _is_to_blame(current, history):
        return None
    success = _mean(best, list(best.validation))
    message = (
        f"nobody could evaluate the adapter of round {round_}, while that of round {best.round} "
        f"had {success:.1%} validation success"
    )
    return Regression(round_, best, message)


def must_await_start(current: CurrentRound, history: Sequence[HistoryEntry]) -> bool:
    """Whether a round that cannot reach its minimum continues until its start adapter is known.

    One client crashed with an adapter that nobody has evaluated; the others still run it.
    """
    rule = current.guard
    if rule is None or not rule.acts or not is_unevaluated(history, current.start.round):
        return False
    states = current.environments
    is_pending = any(e.state not in CONCLUDED for e in states)
    return is_pending and any(_has_crashed(e) for e in states)


def _has_crashed(environment: RoundEnvironment) -> bool:
    return environment.state == "Failed" and exits.is_work_failure(environment.exit_code)


def _is_to_blame(current: CurrentRound, history: Sequence[HistoryEntry]) -> bool:
    """Whether a round that learned nothing about its start adapter failed because of it.

    A wrong setting, a missing image or a missing store says nothing about an adapter. Nor does one
    environment, whose failure may have stopped the others; but two such rounds do.
    """
    states = current.environments
    if any(e.state in ANSWERED for e in states):
        return current.settings.evaluation.is_due(current.start.round)
    broken = sum(_has_crashed(e) for e in states)
    is_second = history[-1].outcome == "failed" and history[-1].round > current.start.round
    return broken == len(states) or (is_second and broken > 0)


def find_best_adapter(
    guard: Guard | None, history: Sequence[HistoryEntry], last: int
) -> HistoryEntry | None:
    """The adapter to end with: the highest on validation tasks of who could judge the last one.

    Who has left meanwhile, or could not play the last one, must not make an old one win. Where
    nobody could, those that most have played are compared.
    """
    if guard is None or not guard.acts:
        return None
    lawful = _list_lawful(guard, history)
    known = [e for e in lawful if e.outcome == "aggregated" and e.validation]
    newest = next((entry for entry in known if entry.round == last), None)
    if newest is None:
        return max(known, key=lambda e: _rank(e, list(e.validation)), default=None)
    fair = [entry for entry in known if _list_common(entry, newest)]
    return max(fair, key=lambda e: _rank(e, _list_common(e, newest)))


def _list_lawful(guard: Guard, history: Sequence[HistoryEntry]) -> list[HistoryEntry]:
    """Rounds within the present bounds, which may be newer than the rounds."""
    return [entry for entry in history if not drift.find_violation(guard, history, entry)]


def _find_best(history: Sequence[HistoryEntry], judged: HistoryEntry) -> HistoryEntry | None:
    """The best of the others; one that shares more environments is the better measure."""
    others = [
        entry
        for entry in history
        if entry.outcome in ACCEPTED and entry is not judged and _list_common(entry, judged)
    ]
    return max(others, key=lambda e: _rank(e, _list_common(e, judged)), default=None)


def _rank(entry: HistoryEntry, names: Sequence[str]) -> tuple[int, float, int]:
    return len(names), _mean(entry, names), -entry.round


def _list_common(one: HistoryEntry, other: HistoryEntry) -> list[str]:
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
