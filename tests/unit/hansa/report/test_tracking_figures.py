"""What is exported: every figure of the status, settings without secrets, and no sentence."""

import pytest

from hansa.api.status import Federation
from hansa.report import tracking_figures
from hansa.report.tracking_figures import LONGEST_NAME, LONGEST_VALUE
from tests.support.builders import make_federation, with_spec
from tests.support.tracked import IDENTITY, SECRET, WORDS, expected, make_tracked


def exported(federation: Federation) -> dict[str, dict[tuple[str, int], float]]:
    record = tracking_figures.build_record(federation, IDENTITY, is_over=True)
    return {
        run.key.partition("/")[2]: {(p.metric, p.step): p.value for p in run.points}
        for run in record.runs
    }


def test_every_figure_of_the_status_is_exported_once() -> None:
    federation = make_tracked()
    assert exported(federation) == expected(federation)


def test_no_sentence_of_the_status_and_no_secret_is_exported() -> None:
    record = tracking_figures.build_record(make_tracked(), IDENTITY, is_over=True)
    assert WORDS not in repr(record)
    assert SECRET not in repr(record)
    assert record.silos[0].parameters["options.size"] == "6"


def test_settings_are_flat_and_bounded() -> None:
    options = {"long" * 100: "x" * 5000, "odd | name\n": [1, 2]}
    federation = with_spec(
        make_federation("maze"),
        environments=[{"name": "maze", "world": "maze", "options": options}],
    )
    record = tracking_figures.build_record(federation, IDENTITY, is_over=False)
    for run in record.runs:
        assert all(len(name) <= LONGEST_NAME for name in run.parameters)
        assert all(len(value) <= LONGEST_VALUE for value in run.parameters.values())
    assert record.silos[0].parameters["options.odd _ name_"] == "[1, 2]"
    assert record.federation.parameters["training.learningRate"]


def test_a_mean_of_some_environments_is_no_figure_yet() -> None:
    federation = make_tracked()
    last = federation.status.history[-1]
    partial = last.model_copy(update={"success": {"maze": 0.5}})
    history = [*federation.status.history[:-1], partial]
    status = federation.status.model_copy(update={"history": history})
    points = exported(federation.model_copy(update={"status": status}))
    assert ("success", 2) not in points[""]
    assert points["maze"]["success", 2] == 0.5


@pytest.mark.parametrize(
    "phase, is_over, state",
    [
        pytest.param("Running", False, "running", id="somebody is at work"),
        pytest.param("Succeeded", True, "finished", id="all rounds are done"),
        pytest.param("Failed", True, "failed", id="a round failed"),
        pytest.param("Running", True, "failed", id="stopped in the middle"),
    ],
)
def test_the_state_of_the_run(phase: str, is_over: bool, state: str) -> None:
    assert (
        tracking_figures.build_record(make_tracked(phase=phase), IDENTITY, is_over=is_over).state
        == state
    )


def test_a_federation_that_has_not_begun_has_no_figures() -> None:
    record = tracking_figures.build_record(make_federation(), IDENTITY, is_over=False)
    assert [run.points for run in record.runs] == [(), (), (), ()]
