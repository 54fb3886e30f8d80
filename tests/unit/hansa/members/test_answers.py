"""What environments are told and what they answer: demonstrations, broken episodes, repeats."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from hansa.api.assignment import REPORT_LIMIT, Assignment, ClientReport, EvaluationReport
from hansa.api.bucket_documents import (
    Counts,
    EvaluationDocument,
    TaskTallies,
    count_effective,
    fingerprint,
)
from hansa.api.jobs import JobRequest
from hansa.api.reports import decode_report, encode_report
from hansa.api.status import FederationStatus
from hansa.core.stats import clustered_interval
from hansa.plan.federation import plan
from hansa.report.run_facts import Score
from tests.support.builders import (
    NOW,
    make_federation,
    make_job,
    make_report,
    with_spec,
    with_status,
)

FILE = "s3://data/shown.jsonl"
OWN = "/silo/own.jsonl"


def opened(**fields: Any) -> tuple[Any, dict[str, Assignment]]:
    """A federation whose first round is open, and what its clients are told."""
    federation = make_federation("maze", "wordle", **fields)
    federation = with_status(federation, plan(federation, [], NOW).status)
    return federation, client_assignments(federation)


def client_assignments(federation: Any) -> dict[str, Assignment]:
    created = plan(federation, [], NOW).create
    return {request.environment: request.assignment for request in created}


def environments(**maze: Any) -> list[dict[str, Any]]:
    return [{"name": "maze", "world": "maze", **maze}, {"name": "wordle", "world": "wordle"}]


@pytest.mark.parametrize(
    "experience, maze, expected",
    [
        pytest.param({}, {}, (None, None), id="the expert shows"),
        pytest.param({"demonstrationsFrom": FILE}, {}, (FILE, FILE), id="one file for all"),
        pytest.param({}, {"demonstrationsFrom": OWN}, (OWN, None), id="one silo has its own"),
        pytest.param(
            {"demonstrationsFrom": FILE}, {"demonstrationsFrom": OWN}, (OWN, FILE), id="both"
        ),
    ],
)
def test_an_environment_is_told_its_own_file_or_that_of_all(
    experience: dict[str, str], maze: dict[str, str], expected: tuple[str | None, ...]
) -> None:
    _, clients = opened(experience=experience, environments=environments(**maze))
    found = [clients[name] for name in ("maze", "wordle")]
    assert tuple(each.demonstrations_from for each in found) == expected
    assert tuple(each.inputs().get("demonstrationsFrom") for each in found) == expected
    assert all("demonstrationsFrom" not in each.inputs()["experience"] for each in found)


def test_a_round_keeps_the_file_it_opened_with() -> None:
    federation, _ = opened(environments=environments(demonstrationsFrom=OWN))
    changed = with_spec(federation, environments=environments(demonstrationsFrom="/other"))
    assert client_assignments(changed)["maze"].demonstrations_from == OWN


@pytest.mark.parametrize("own", [0, 5])
def test_an_environment_is_told_its_own_number_of_demonstrations(own: int) -> None:
    federation, clients = opened(environments=environments(demonstrations=own))
    assert clients["maze"].demonstrations_wanted == own
    assert clients["wordle"].demonstrations_wanted == 40
    assert clients["maze"].inputs()["demonstrations"] == own
    assert "demonstrations" not in clients["wordle"].inputs()
    changed = with_spec(federation, environments=environments(demonstrations=9))
    assert client_assignments(changed)["maze"].demonstrations_wanted == own  # as the round opened


def test_what_is_computed_from_a_manifest_without_it_stays_the_same() -> None:
    """Without an environment's own number, circles and an adaptive step."""
    _, clients = opened()
    assert fingerprint(clients["maze"].inputs()) == (
        "a0d8f0ad5d838db6aa3d7cd64477c4af1006996c2d3f7d04a7ffbcd091cf5a87"
    )
    assert "demonstrations" not in clients["maze"].to_json()


def answered(evaluation: EvaluationReport, counts: Counts) -> FederationStatus:
    """The status after maze has answered so."""
    federation, _ = opened()
    requests: dict[str, JobRequest] = {
        request.environment: request for request in plan(federation, [], NOW).create
    }
    report: ClientReport = make_report(requests["maze"])
    report = report.model_copy(update={"evaluation": evaluation, "counts": counts})
    job = make_job(requests["maze"], "succeeded", report=report)
    return plan(federation, [job], NOW).status


def test_the_status_has_broken_episodes_and_what_repeats_are_worth() -> None:
    evaluation = EvaluationReport(round=0, episodes=100, successes=40, effective=31.256)
    status = answered(evaluation, Counts(explored=60, broken=4))
    maze = next(line for line in status.environments if line.name == "maze")
    assert (maze.explored, maze.broken) == (60, 4)
    assert status.history[0].episodes == {"maze": 100}
    assert status.history[0].effective == {"maze": 31.26}


def test_where_each_task_is_played_once_nothing_more_is_said() -> None:
    status = answered(EvaluationReport(round=0, episodes=100, successes=40), Counts())
    assert status.history[0].effective == {}


def document(worth: float | None = None) -> EvaluationDocument:
    return EvaluationDocument(
        program="1",
        environment="maze",
        adapter={},  # type: ignore[arg-type]
        fingerprint="0" * 64,
        inputs={},
        temperature=1.0,
        episodes=120,
        successes=60,
        worth=worth,
    )


def test_the_reports_interval_is_the_clustered_one() -> None:
    tasks = {f"t{n}": [n % 5, 4] for n in range(30)}
    found = document(count_effective(tasks))
    ratio = found.successes / found.episodes
    score = Score(ratio=ratio, episodes=found.episodes, effective=found.effective())
    expected = clustered_interval({name: (won, played) for name, (won, played) in tasks.items()})
    assert score.interval == expected
    plain = Score(ratio=ratio, episodes=found.episodes).interval
    assert score.interval.high - score.interval.low > plain.high - plain.low


def test_a_document_without_repeats_has_no_effective_number() -> None:
    assert count_effective({"a": [1, 1], "b": [0, 1]}) is None
    assert document().effective() is None


@pytest.mark.parametrize("tally", [[], [1], [1, 1, 1], [2, 1], [-1, 1]])
def test_a_tally_is_successes_among_episodes(tally: list[int]) -> None:
    same = {"program": "1", "environment": "maze", "adapter": {}, "fingerprint": "0" * 64}
    with pytest.raises(ValidationError, match="tasks"):
        TaskTallies.model_validate({**same, "inputs": {}, "tasks": {"a": tally}})


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"manifest": "x"}, id="a digest that is none"),
        pytest.param({"seconds": {"text of an episode": 1.0}}, id="text for a phase"),
        pytest.param({"seconds": {"train": -5.0}}, id="less than no time"),
        pytest.param({"adapter": "x"}, id="an adapter's"),
        pytest.param({"own": {"episodes": 1, "successes": 1000}}, id="a ratio of a thousand"),
        pytest.param({"counts": {"explored": 10**400}}, id="a number that no float holds"),
        pytest.param(
            {"evaluation": {"round": 0, "episodes": 1, "successes": 2}}, id="more than were played"
        ),
    ],
)
def test_a_report_that_cannot_be_true_is_as_good_as_lost(change: dict[str, Any]) -> None:
    good = {"kind": "client", "environment": 0, "round": 1, "trained": True, "manifest": "a" * 64}
    assert decode_report(json.dumps({**good, "counts": {}}).encode()) is not None
    assert decode_report(json.dumps({**good, "counts": {}, **change}).encode()) is None


def test_a_full_report_fits_a_termination_message() -> None:
    large = 10**12
    report = ClientReport(
        environment=99,
        round=10_000,
        trained=True,
        manifest="a" * 64,
        counts=Counts(**dict.fromkeys(Counts.model_fields, large)),
        evaluation=EvaluationReport(
            round=9_999, episodes=large, successes=large, broken=large, effective=1 / 3
        ),
        solved=large,
        entropy=1 / 3,
        norm=1 / 3,
        bytes=large,
        seconds=dict.fromkeys(("load", "evaluate", "explore", "train", "send"), 12345.678),
    )
    assert len(encode_report(report)) < REPORT_LIMIT / 4
