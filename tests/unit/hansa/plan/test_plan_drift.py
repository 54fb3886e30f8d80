"""Probes in the plan: an adapter that does better and breaks rules is not gone on from."""

from typing import Any

import pytest

from hansa.api import letters
from hansa.api.assignment import REPORT_LIMIT, ClientReport, EvaluationReport
from hansa.api.jobs import JobRequest
from hansa.api.probes import MOST_PROBES, ProbeFigure
from hansa.api.reports import encode_report
from hansa.plan.job_requests import build_client_assignment
from tests.support import mail
from tests.support.builders import make_report
from tests.support.drift_plans import MEMORY, NAMES, WALL, federation, play
from tests.support.guard_plans import outcomes, start
from tests.support.letters import opened
from tests.support.simulated_cluster import Cluster


def test_an_adapter_that_does_better_and_breaks_rules_is_gone_back_from() -> None:
    cluster = play(play(federation(), 2), 10)
    assert outcomes(cluster) == ["base", "rejected", "rolled-back"]
    assert start(cluster, "fed-r3-maze-a1") == 0
    said = "probe wall broke its rule in 50.0% of its episodes (round 1) and in 10.0% before"
    degraded = cluster.condition("Degraded")
    assert (degraded.status, degraded.reason) == ("True", "RolledBack")
    assert said in degraded.message
    assert [e.warning for e in cluster.events if e.reason == "RolledBack"] == [True]
    assert cluster.status.history[1].probes.violations == {"wall": 0.5}


def test_one_that_forgets_is_gone_back_from_as_well() -> None:
    cluster = play(play(federation(), 2), 2, nats=0.6)
    assert outcomes(cluster)[-1] == "rolled-back"
    assert "probe memory" in cluster.status.history[-1].message


def test_one_that_keeps_the_rules_is_gone_on_from() -> None:
    cluster = play(play(play(federation(), 2), 4), 4, nats=0.5)
    assert outcomes(cluster) == ["base", "aggregated", "aggregated", "aggregated"]


def test_a_federation_whose_every_adapter_breaks_rules_ends_with_the_base() -> None:
    cluster = federation(rounds=4)
    for _ in range(5):
        play(cluster, 20)
    assert cluster.status.phase == "Succeeded"
    assert cluster.status.adapter is None
    assert outcomes(cluster) == ["base", "rejected", "rolled-back", "rejected", "rolled-back"]


def test_the_last_adapter_is_judged_too() -> None:
    cluster = federation(rounds=1)
    play(play(cluster, 2), 20)
    assert cluster.status.phase == "Succeeded"
    assert outcomes(cluster) == ["base", "rejected"]
    assert cluster.status.adapter is None


@pytest.mark.attack(
    by="a silo",
    does="claims that every adapter breaks rules, or that none does",
    result="what more than half of the silos confirm counts",
)
@pytest.mark.parametrize("names", [NAMES, NAMES[:2]], ids=["of three", "of two"])
def test_one_liar_rolls_nothing_back_however_often_it_lies(names: tuple[str, ...]) -> None:
    cluster = federation(*names, rounds=6)
    for _ in range(7):
        play(cluster, 2, "maze")
    assert cluster.status.phase == "Succeeded"
    assert outcomes(cluster) == ["base", *["aggregated"] * 6]
    lines = {line.name: line.probes for line in cluster.status.environments}
    assert lines["maze"].violations["wall"] == 1.0, "what it says is shown as its own"


@pytest.mark.attack(
    by="a silo",
    does="claims that every adapter breaks rules, or that none does",
    result="what more than half of the silos confirm counts",
)
def test_one_liar_of_three_hides_nothing() -> None:
    cluster = play(play(federation(), 2), 20, "maze", lie=0)
    assert outcomes(cluster)[-1] == "rolled-back"


def test_without_probes_no_document_names_them() -> None:
    cluster = Cluster(*NAMES, rounds=2, guard={"maxDrop": 0.1}).turn()
    play(cluster, 0)
    assert "probe" not in cluster.status.model_dump_json(exclude_none=True)
    (request, *_) = cluster.requests.values()
    assert "probe" not in request.assignment.model_dump_json(exclude_none=True)


def test_probes_are_no_input_of_an_update() -> None:
    (probed, *_) = federation().requests.values()
    (plain, *_) = Cluster(*NAMES, rounds=6).turn().requests.values()
    assert probed.assignment.settings.probes
    assert probed.assignment.inputs() == plain.assignment.inputs()


@pytest.mark.attack(
    by="a silo",
    does="reports probes that were not ordered, or without end",
    result="the report counts as lost, or is none",
)
@pytest.mark.parametrize(
    "figures",
    [
        pytest.param({"other": ProbeFigure(episodes=1)}, id="a probe that nobody asked for"),
        pytest.param({"wall": ProbeFigure(episodes=21)}, id="more episodes than it has tasks"),
        pytest.param({"wall": ProbeFigure(forgotten=1.0)}, id="nats of a world"),
        pytest.param({"memory": ProbeFigure(episodes=1)}, id="episodes of texts"),
    ],
)
def test_figures_that_were_not_asked_for_count_as_a_lost_report(
    figures: dict[str, ProbeFigure],
) -> None:
    cluster = federation()
    request = cluster.requests["fed-r1-maze-a1"]
    report = make_report(request)
    assert report.answers(request.assignment)
    evaluation = report.evaluation.model_copy(update={"probes": figures})
    assert not report.model_copy(update={"evaluation": evaluation}).answers(request.assignment)


@pytest.mark.parametrize(
    "figure",
    [
        {"episodes": -1},
        {"episodes": 2**60},
        {"episodes": 3, "violations": 4},
        {"violations": 1},
        {"forgotten": 1e9},
        {"forgotten": float("nan")},
        {"forgotten": 1.0, "episodes": 1},
        {"episodes": 1, "words": "of an episode"},
    ],
)
def test_a_figure_that_cannot_be_is_refused(figure: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        ProbeFigure.model_validate(figure)


@pytest.mark.attack(
    by="a silo",
    does="reports probes that were not ordered, or without end",
    result="the report counts as lost, or is none",
)
@pytest.mark.parametrize(
    "figures",
    [
        {f"p{number}": {} for number in range(MOST_PROBES + 1)},
        {"p" * 31: {}},
        {"Said <b>": {}},
    ],
    ids=["too many", "too long a name", "text for a name"],
)
def test_figures_without_end_are_no_report(figures: dict[str, Any]) -> None:
    given = {"round": 0, "episodes": 1, "successes": 1, "probes": figures}
    with pytest.raises(ValueError):
        EvaluationReport.model_validate(given)
    small = {name: {} for name in list(figures)[:1] if name == "p0"}
    assert EvaluationReport.model_validate({**given, "probes": small})


def test_the_largest_report_of_probes_fits_into_a_termination_log() -> None:
    probes = [{**WALL, "name": f"{'p' * 28}-{n}", "tasks": 1000} for n in range(MOST_PROBES)]
    request = federation(probes=probes, guard=None).requests["fed-r1-maze-a1"]
    figures = {probe["name"]: ProbeFigure(episodes=1000, violations=1000) for probe in probes}
    report = make_report(request)
    assert isinstance(report, ClientReport)
    evaluation = report.evaluation.model_copy(update={"probes": figures})
    full = report.model_copy(update={"evaluation": evaluation})
    assert full.answers(request.assignment)
    assert len(encode_report(full)) < REPORT_LIMIT / 2


def test_a_silo_elsewhere_gets_the_probes_with_its_order_and_answers_with_their_figures() -> None:
    cluster = opened("clinic", probes=[WALL, MEMORY])
    assert cluster.courier.template.settings.probes == cluster.federation.spec.probes
    cluster.deliver()
    cluster.hear("clinic", "taken")
    assignment = build_client_assignment(cluster.federation, cluster.status.current, "clinic")
    request = JobRequest(
        name="", role="client", round=1, environment="clinic", attempt=1, assignment=assignment
    )
    figures = {"wall": ProbeFigure(episodes=20, violations=5)}
    report = make_report(request)
    evaluation = report.evaluation.model_copy(update={"probes": figures})
    cluster.hear("clinic", "answer", report=report.model_copy(update={"evaluation": evaluation}))
    assert cluster.state("clinic") == "Updated"
    assert cluster.status.history[0].probes.violations == {"wall": 0.25}


def test_the_largest_probes_fit_into_an_order() -> None:
    cluster = opened("clinic", probes=[{"name": "p", "texts": ["\U0001f642" * 1300] * 3}])
    order = mail.work(settings=cluster.courier.template.settings.to_json())
    sealed = letters.write_letter(letters.ORDERS, order.place_at(1, ""), mail.COORDINATOR)
    assert 16_000 < len(sealed) < letters.ORDERS.limit / 2
