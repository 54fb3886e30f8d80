"""Whether an adapter breaks rules or forgets more than allowed, by its probes.

All silos play the same probes on the same adapter, so honest ones report the same. The lower median
counts: what more than half of them confirm. With two or more silos no single one can cause a
rollback, however often it reports a drift; and it takes half of them to hide one.
"""

from collections.abc import Mapping, Sequence

from hansa.api.assignment import EvaluationReport
from hansa.api.probes import ProbeSummary
from hansa.api.spec import Guard
from hansa.api.status import FederationStatus, HistoryEntry

KEPT = frozenset({"base", "aggregated"})
"""Rounds that others are compared with."""
ROUNDING = 1e-9
"""A rise of exactly maxViolations is none, however its fractions were added."""


def record(status: FederationStatus, name: str, evaluation: EvaluationReport) -> FederationStatus:
    """Record an environment's probes of an adapter, in its line and in the adapter's round."""
    own = _build_probed(evaluation)
    if not (own.violations or own.forgotten):
        return status
    lines = [
        line.model_copy(update={"probes": own}) if line.name == name else line
        for line in status.environments
    ]
    said = [each.probes for each in lines if each.probes and each.probes.round == own.round]
    confirmed = ProbeSummary(
        round=own.round,
        violations=_confirm([each.violations for each in said]),
        forgotten=_confirm([each.forgotten for each in said]),
    )
    history = [
        entry.model_copy(update={"probes": confirmed}) if entry.round == own.round else entry
        for entry in status.history
    ]
    return status.model_copy(update={"environments": lines, "history": history})


def _build_probed(evaluation: EvaluationReport) -> ProbeSummary:
    figures = sorted((evaluation.probes or {}).items())
    return ProbeSummary(
        round=evaluation.round,
        violations={name: each.ratio for name, each in figures if each.ratio is not None},
        forgotten={
            name: round(each.forgotten, 4) for name, each in figures if each.forgotten is not None
        },
    )


def _confirm(said: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = sorted({name for each in said for name in each})
    return {name: lower_median([each[name] for each in said if name in each]) for name in names}


def lower_median(values: Sequence[float]) -> float:
    """The largest value that more than half of them reach."""
    return sorted(values)[(len(values) - 1) // 2]


def find_violation(guard: Guard, history: Sequence[HistoryEntry], entry: HistoryEntry) -> str:
    """Which bound of the guard an adapter breaks; empty: none, or it is unknown.

    Violations are compared with the first adapter whose probe was played, usually the base: an
    untrained policy breaks some rules by chance.
    """
    if not entry.probes or not entry.round:
        return ""
    for name, share in sorted(entry.probes.violations.items()):
        first = _find_first(history, entry.round, name)
        if guard.max_violations is None or first is None:
            continue
        before = first.violations[name]
        if share - before > guard.max_violations + ROUNDING:
            return (
                f"probe {name} broke its rule in {share:.1%} of its episodes (round {entry.round}) "
                f"and in {before:.1%} before (round {first.round}), a rise of more than "
                f"guard.maxViolations {guard.max_violations:g}"
            )
    for name, nats in sorted(entry.probes.forgotten.items()):
        if guard.max_forgetting is not None and nats > guard.max_forgetting + ROUNDING:
            return (
                f"the texts of probe {name} are {nats:.3f} nats per token less likely than without "
                f"an adapter (round {entry.round}), more than guard.maxForgetting "
                f"{guard.max_forgetting:g}"
            )
    return ""


def measure_rises(status: FederationStatus) -> dict[str, float]:
    """By probe: how much more often the adapter that counts breaks the rule than the first did."""
    entry = find_current(status)
    if entry is None or entry.probes is None:
        return {}
    firsts = {
        name: _find_first(status.history, entry.round, name) for name in entry.probes.violations
    }
    return {
        name: round(share - (first.violations[name] if (first := firsts[name]) else share), 4)
        for name, share in entry.probes.violations.items()
    }


def find_current(status: FederationStatus) -> HistoryEntry | None:
    """The newest adapter with probes that was not rolled back."""
    newest = status.adapter.round if status.adapter else 0
    known = [e for e in status.history if e.probes and e.outcome in KEPT and e.round <= newest]
    return known[-1] if known else None


def describe_probes(status: FederationStatus) -> list[str]:
    """What each probe says of the adapter that counts, for a screen."""
    entry = find_current(status)
    if entry is None or entry.probes is None:
        return []
    risen = measure_rises(status)
    return [
        *(
            f"probe {name}: its rule was broken in {share:.1%} of its episodes, "
            f"{100 * risen[name]:+.1f} points since the first adapter (round {entry.round})"
            for name, share in entry.probes.violations.items()
        ),
        *(
            f"probe {name}: its texts are {nats:+.3f} nats per token less likely than without an "
            f"adapter (round {entry.round})"
            for name, nats in entry.probes.forgotten.items()
        ),
    ]


def _find_first(history: Sequence[HistoryEntry], round_: int, name: str) -> ProbeSummary | None:
    return next(
        (
            entry.probes
            for entry in history
            if entry.round < round_
            and entry.outcome in KEPT
            and entry.probes
            and name in entry.probes.violations
        ),
        None,
    )
