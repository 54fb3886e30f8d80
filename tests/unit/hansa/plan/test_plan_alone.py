"""What silos would have had alone, as the status tells it."""

from typing import Any

import pytest

from hansa.api.assignment import EvaluateReport
from hansa.api.bucket_documents import Figures
from hansa.api.reports import decode_report, encode_report
from tests.support.builders import make_report, with_spec
from tests.support.simulated_cluster import Cluster

ALONE = {"alone": True}
LAST = "fed-e1-maze-a1"


def evaluated(**fields: Any) -> Cluster:
    """A federation of one round before its last adapter is evaluated."""
    return Cluster("maze", rounds=1, evaluation=ALONE, **fields).run_round()


@pytest.mark.parametrize(
    "mode, successes, sentence",
    [
        pytest.param(
            "none", 9, "joining brought you +80.0 points (+37.0 to +91.6)", id="the shared adapter"
        ),
        pytest.param(
            "best", 1, "joining brought you +70.0 points (+26.6 to +86.5)", id="what it serves"
        ),
    ],
)
def test_the_status_says_what_joining_brought(mode: str, successes: int, sentence: str) -> None:
    cluster = evaluated(personalization=mode).answer(LAST, successes=successes).turn()
    line = cluster.status.environments[0]
    assert cluster.status.phase == "Succeeded"
    assert (line.alone, line.success, line.joined) == ("0.100", f"0.{successes}00", sentence)


def test_without_the_question_there_is_no_answer() -> None:
    cluster = Cluster("maze", rounds=1).run_round().answer(LAST).turn()
    line = cluster.status.environments[0]
    assert (line.alone, line.joined, cluster.requests[LAST].assignment.alone_rounds) == ("", "", 0)


def test_a_silo_evolves_alone_for_as_many_rounds_as_were_completed_and_only_at_the_end() -> None:
    cluster = Cluster("maze", rounds=2, evaluation=ALONE).run_round()
    cluster.answer("fed-r2-maze-a1", trained=False).turn()  # counts, and makes no adapter
    rounds = {name: one.assignment.alone_rounds for name, one in cluster.requests.items()}
    assert rounds.pop("fed-e1-maze-a1") == 2
    assert set(rounds.values()) == {0}


def test_what_a_silo_had_alone_is_forgotten_when_nobody_asks_any_more() -> None:
    cluster = evaluated().answer(LAST).turn()
    assert cluster.status.environments[0].joined
    cluster.federation = with_spec(cluster.federation, rounds=2, evaluation={"alone": False})
    line = cluster.run_round().status.environments[0]
    assert (line.alone, line.joined) == ("", "")


@pytest.mark.parametrize(
    "figures, known",
    [
        pytest.param({"episodes": 0, "successes": 0}, ("", ""), id="nothing was played"),
        pytest.param(
            {"episodes": 2**53, "successes": 2**53},
            ("1.000", "joining cost you 50.0 points (23.7 to 76.3)"),
            id="more episodes than there is time for",
        ),
    ],
)
def test_a_report_with_odd_figures_breaks_nothing(
    figures: dict[str, int], known: tuple[str, str]
) -> None:
    cluster = evaluated()
    report = make_report(cluster.requests[LAST])
    report = report.model_copy(update={"alone": Figures.model_validate(figures)})
    line = cluster.set(LAST, "succeeded", report=report).turn().status.environments[0]
    assert (line.alone, line.joined) == known


@pytest.mark.parametrize(
    "claim",
    [
        pytest.param(b'{"episodes":1,"successes":2}', id="more successes than episodes"),
        pytest.param(b'{"episodes":-1,"successes":-2}', id="less than nothing"),
        pytest.param(b'{"episodes":1e400,"successes":1}', id="no number"),
        pytest.param(b'"joining brought you +100 points"', id="a sentence of its own"),
        pytest.param(b'{"episodes":1,"successes":1,"text":"x"}', id="a text"),
    ],
)
def test_a_report_that_claims_nonsense_is_no_report(claim: bytes) -> None:
    cluster = evaluated()
    report = make_report(cluster.requests[LAST])
    assert isinstance(report, EvaluateReport)
    data = encode_report(report)
    usual = b'{"episodes":10,"successes":1}'
    assert decode_report(data) == report and data.count(usual) == 1
    assert decode_report(data.replace(usual, claim)) is None
