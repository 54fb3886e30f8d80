"""Whether an adapter breaks rules or forgets more than it may, as tables."""

from typing import Any

import pytest

from hansa.api.assignment import EvaluationReport
from hansa.api.probes import ProbeFigure, ProbeSummary
from hansa.api.spec import Guard
from hansa.api.status import EnvironmentStatus, FederationStatus, HistoryEntry
from hansa.plan.policy import drift, guard


def entry(
    round_: int,
    outcome: Any = "aggregated",
    success: float = 0.5,
    forgotten: float | None = None,
    **violations: float,
) -> HistoryEntry:
    nats = {} if forgotten is None else {"memory": forgotten}
    said = ProbeSummary(round=round_, violations=violations, forgotten=nats)
    return HistoryEntry(
        round=round_,
        outcome=outcome,
        validation={"maze": success},
        probes=said if violations or nats else None,
    )


BASE = entry(0, "base", 0.2, 0.0, wall=0.1)


@pytest.mark.parametrize(
    ("history", "fields", "back_to"),
    [
        pytest.param(
            [BASE, entry(1, success=0.9, wall=0.3)], {"maxViolations": 0.1}, 0, id="better, and bad"
        ),
        pytest.param(
            [BASE, entry(1, wall=0.2)], {"maxViolations": 0.1}, None, id="exactly the rise allowed"
        ),
        pytest.param([BASE, entry(1, wall=1.0)], {}, None, id="without a bound it is only told"),
        pytest.param(
            [BASE, entry(1, wall=1.0)],
            {"maxViolations": 0.1, "action": "none"},
            None,
            id="a guard that does not act",
        ),
        pytest.param(
            [BASE, entry(1, success=0.3, wall=0.1), entry(2, success=0.9, wall=0.5)],
            {"maxViolations": 0.1},
            1,
            id="back to the best that keeps the rule",
        ),
        pytest.param(
            [BASE, entry(1, success=0.8, wall=0.5), entry(2, success=0.9, wall=0.5)],
            {"maxViolations": 0.1},
            0,
            id="not to one that broke it before there was a bound",
        ),
        pytest.param(
            [entry(0, "base", 0.2), entry(1, success=0.9, wall=1.0)],
            {"maxViolations": 0.1},
            None,
            id="a probe's first figure is what others are held against",
        ),
        pytest.param(
            [entry(0, "base", 0.2), entry(1, wall=0.1), entry(2, success=0.9, wall=1.0)],
            {"maxViolations": 0.1},
            1,
            id="a probe that came later",
        ),
        pytest.param(
            [BASE, entry(1, "rejected", wall=0.9), entry(2, success=0.9, wall=0.15)],
            {"maxViolations": 0.1},
            None,
            id="a rejected adapter is not gone back to",
        ),
        pytest.param(
            [
                entry(0, "base", 0.2),
                entry(1, "rejected", wall=0.9),
                entry(2, wall=0.1),
                entry(3, success=0.9, wall=0.5),
            ],
            {"maxViolations": 0.1},
            2,
            id="a rejected adapter is no measure",
        ),
        pytest.param(
            [entry(0, "base", 0.2, 900.0), entry(1, success=0.9, forgotten=900.0)],
            {"maxForgetting": 0.5},
            0,
            id="the base is always gone back to, whatever is said of it",
        ),
        pytest.param(
            [entry(0, "base", 0.2, wall=0.0, other=0.5), entry(1, wall=0.0, other=0.7)],
            {"maxViolations": 0.1},
            0,
            id="one of two probes is enough",
        ),
        pytest.param(
            [BASE, entry(1, success=0.9, forgotten=0.6)],
            {"maxForgetting": 0.5},
            0,
            id="it has forgotten too much",
        ),
        pytest.param(
            [BASE, entry(1, forgotten=0.5)], {"maxForgetting": 0.5}, None, id="not too much"
        ),
        pytest.param([BASE, entry(1, forgotten=9.0)], {}, None, id="forgetting without a bound"),
        pytest.param([BASE, entry(1)], {"maxViolations": 0.0}, None, id="no probe was played"),
        pytest.param(
            [entry(0, "base", 0.2, 900.0, wall=1.0)],
            {"maxForgetting": 0.1, "maxViolations": 0.0},
            None,
            id="there is nothing before the base",
        ),
    ],
)
def test_an_adapter_that_breaks_rules_or_forgets_is_gone_back_from(
    history: list[HistoryEntry], fields: dict[str, Any], back_to: int | None
) -> None:
    rule = Guard.model_validate({"maxDrop": 0.5, **fields})
    fall = guard.judge(rule, history, history[-1].round)
    assert (fall.best.round if fall else None) == back_to
    assert fall is None or fall.alone == ""


def test_the_sentence_names_the_probe_and_both_figures() -> None:
    rule = Guard(max_violations=0.05, max_forgetting=0.5)
    assert drift.find_violation(rule, [BASE], entry(4, wall=0.25)) == (
        "probe wall broke its rule in 25.0% of its episodes (round 4) and in 10.0% before "
        "(round 0), a rise of more than guard.maxViolations 0.05"
    )
    assert drift.find_violation(rule, [BASE], entry(4, forgotten=0.75)) == (
        "the texts of probe memory are 0.750 nats per token less likely than without an adapter "
        "(round 4), more than guard.maxForgetting 0.5"
    )


def test_the_best_that_is_kept_at_the_end_breaks_no_rule() -> None:
    rule = Guard(max_violations=0.05)
    history = [BASE, entry(1, success=0.9, wall=0.9), entry(2, success=0.4, wall=0.1)]
    kept = guard.find_best_adapter(rule, history, 2)
    assert kept is not None
    assert kept.round == 2


@pytest.mark.parametrize(
    ("said", "counts"),
    [
        pytest.param([1.0], 1.0, id="one alone is believed"),
        pytest.param([0.0, 1.0], 0.0, id="of two the lower"),
        pytest.param([0.1, 0.1, 1.0], 0.1, id="one liar of three"),
        pytest.param([0.0, 0.9, 1.0], 0.9, id="two of three confirm"),
        pytest.param([0.0, 0.0, 0.8, 0.8], 0.0, id="half is not more than half"),
    ],
)
def test_what_more_than_half_confirm_counts(said: list[float], counts: float) -> None:
    assert drift.lower_median(said) == counts


def report(round_: int, **figures: ProbeFigure) -> EvaluationReport:
    return EvaluationReport(round=round_, episodes=1, successes=1, probes=figures or None)


def test_a_figure_is_kept_by_environment_and_confirmed_by_round() -> None:
    names = ("a", "b", "c")
    status = FederationStatus(
        environments=[EnvironmentStatus(name=name, state="Updated") for name in names],
        history=[HistoryEntry(round=0, outcome="base"), HistoryEntry(round=1, outcome="empty")],
    )
    for name, broke in zip(names, (1, 10, 2), strict=True):
        said = report(
            0,
            wall=ProbeFigure(episodes=10, violations=broke),
            memory=ProbeFigure(forgotten=broke / 100),
            nothing=ProbeFigure(),
        )
        status = drift.record(status, name, said)
    first, second = status.history
    assert first.probes == ProbeSummary(
        round=0, violations={"wall": 0.2}, forgotten={"memory": 0.02}
    )
    assert second.probes is None
    assert [e.probes.violations["wall"] for e in status.environments if e.probes] == [0.1, 1.0, 0.2]
    assert drift.record(status, "a", report(0)) is status, "who says nothing takes nothing back"
    again = drift.record(status, "a", report(1, wall=ProbeFigure(episodes=4, violations=4)))
    assert again.history[1].probes == ProbeSummary(round=1, violations={"wall": 1.0})
    assert again.history[0].probes == first.probes
