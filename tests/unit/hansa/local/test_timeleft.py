"""The time left follows from episodes: in rounds, between them, and in both lone evaluations."""

from typing import Any

import pytest

from hansa.api.status import CurrentRound, Federation, FederationStatus, RoundSettings
from hansa.local import timeleft
from tests.support.builders import make_federation

NAMES = ("maze", "webshop")
EVALUATE, EXPLORE = 100, 60
ROUND = 1.5 * (EVALUATE + EXPLORE)
WHOLE = 2 * ROUND + EVALUATE


def federation(**status: Any) -> Federation:
    made = make_federation(
        rounds=2,
        evaluation={"tasks": EVALUATE},
        exploration={"tasksPerRound": EXPLORE},
        environments=[{"name": name, "world": name} for name in NAMES],
    )
    return made.model_copy(update={"status": FederationStatus(phase="Running", **status)})


def current(kind: str = "round", **states: str) -> CurrentRound:
    return CurrentRound.model_validate(
        {
            "kind": kind,
            "round": 1,
            "openedAt": "2026-03-14T09:26:00Z",
            "start": {},
            "settings": RoundSettings.from_spec(federation().spec).to_json(),
            "participation": {},
            "environments": [
                {"name": name, "world": name, "state": states.get(name, "Running")}
                for name in NAMES
            ],
        }
    )


def both(phase: str, done: int, total: int) -> dict[str, dict[str, Any]]:
    return {key: {"phase": phase, "done": done, "total": total} for key in NAMES}


@pytest.mark.parametrize(
    ("status", "progress", "done"),
    [
        pytest.param({}, {}, 0, id="nothing has begun"),
        pytest.param({"current": current()}, both("load", 0, 1), 0, id="loading"),
        pytest.param(
            {"current": current()}, both("evaluate", 50, 100), 50, id="the base is evaluated"
        ),
        pytest.param(
            {"current": current()}, both("explore", 30, 60), EVALUATE + 30, id="exploring"
        ),
        pytest.param(
            {"current": current()}, both("train", 1, 2), 160 + 40, id="half of the training"
        ),
        pytest.param(
            {"current": current()}, both("own", 1, 100), ROUND, id="the own update is played"
        ),
        pytest.param(
            {"current": current(maze="Updated")},
            {"webshop": {"phase": "evaluate", "done": 0, "total": 100}},
            ROUND / 2,
            id="one has answered",
        ),
        pytest.param(
            {"current": current(maze="Updated", webshop="Failed")}, {}, ROUND, id="aggregating"
        ),
        pytest.param({"completed": 1}, {}, ROUND, id="between two rounds"),
        pytest.param({"completed": 2}, {}, 2 * ROUND, id="before the last evaluation"),
        pytest.param(
            {"completed": 2, "current": current("evaluate")},
            both("evaluate", 25, 100),
            2 * ROUND + 25,
            id="the last adapter is evaluated",
        ),
        pytest.param({"completed": 2, "evaluated": 2}, {}, WHOLE, id="all is done"),
    ],
)
def test_the_work_that_is_done(
    status: dict[str, Any], progress: dict[str, dict[str, Any]], done: float
) -> None:
    assert timeleft.measure_work(federation(**status), progress) == pytest.approx((done, WHOLE))


@pytest.mark.parametrize(
    ("seconds", "done", "ahead", "expected"),
    [
        pytest.param(10, 50, 100, 20, id="at the same pace"),
        pytest.param(10, 0, 100, None, id="no pace is known yet"),
        pytest.param(10, 50, 0, 0, id="nothing is ahead"),
    ],
)
def test_the_time_left(seconds: float, done: float, ahead: float, expected: float | None) -> None:
    assert timeleft.estimate_seconds_left(seconds, done, ahead) == expected


def test_rounds_alone_are_work_ahead_from_the_beginning() -> None:
    given = federation()
    asked = {**given.spec.to_json(), "evaluation": {"tasks": EVALUATE, "alone": True}}
    spec = type(given.spec).model_validate(asked)
    done, whole = timeleft.measure_work(given.model_copy(update={"spec": spec}), {})
    alone = 2 * (ROUND - EVALUATE) + EVALUATE
    assert (done, whole) == pytest.approx((0, WHOLE + alone))


def test_what_a_program_writes_as_its_progress_breaks_nothing() -> None:
    for odd in ({"phase": None}, {"phase": "train", "total": 0}, {"phase": "dance", "total": 3}):
        done, _ = timeleft.measure_work(federation(current=current()), dict.fromkeys(NAMES, odd))
        assert done == 0
