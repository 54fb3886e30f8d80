"""What `hansa join` prints of its conditions: a trouble once, and once that it is over."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from hansa.api.exchange import Cursor
from hansa.api.jobs import JobRequest, ObservedJob
from hansa.api.letters import Reference
from hansa.api.silo_assignment import NewestOrder, SiloReport
from hansa.local import join
from hansa.local.join import CountedLines, Joining, _list_changed_conditions, list_troubles
from hansa.local.rundir import RunDir
from tests.support.clinic import NOW, Clinic, digest, working
from tests.support.clinic_failures import fail


def test_a_trouble_is_printed_once_and_so_is_its_end() -> None:
    troubles: dict[str, str] = {}
    clinic = working()
    assert _list_changed_conditions(clinic.silo, troubles) == [], "all is well"
    fail(clinic, 44, trouble="Unreachable", message="no answer")
    assert _list_changed_conditions(clinic.silo, troubles) == [
        "Connected False: Unreachable: no answer; it is retried"
    ]
    assert _list_changed_conditions(clinic.silo, troubles) == []
    clinic.now = clinic.wake_at
    clinic.turn().post()
    [line] = _list_changed_conditions(clinic.silo, troubles)
    assert line.startswith("Connected True: Listening: ")


def test_a_refused_order_is_printed_with_its_sentence() -> None:
    clinic = Clinic().turn().post()
    clinic.order(veto="most", path="rounds", message="rounds: got 9, allowed at most 3")
    assert _list_changed_conditions(clinic.silo, {}) == [
        "Allowed False: Refused: order 1 refused: rounds: got 9, allowed at most 3"
    ]


def test_what_comes_again_is_counted_and_the_count_is_said_before_something_else() -> None:
    told: list[str] = []
    say = CountedLines(told.append)
    for line in ("down", "down", "down", "up", "down"):
        say(line)
    assert told == ["down", "down (2 more times)", "up", "down"]


def test_a_courier_that_fails_again_and_again_is_one_trouble() -> None:
    clinic, troubles = working(), dict[str, str]()
    fail(clinic, 44, trouble="Unreachable", message="no answer")
    [event] = clinic.events
    trouble = "Connected False: Unreachable: no answer; it is retried"
    for events, expected in (([event], [trouble]), ([event], [trouble]), ([], [])):
        assert list_troubles(events, clinic.silo, troubles) == expected


class Couriers:
    """An executor whose couriers end at once with these reports, and then listen."""

    def __init__(self, reports: list[SiloReport]) -> None:
        self.reports = reports
        self.jobs: dict[str, ObservedJob] = {}
        self.waits = 0

    def observe(self) -> list[ObservedJob]:
        return list(self.jobs.values())

    def apply(self, delete: Sequence[str], create: Sequence[JobRequest]) -> None:
        for name in delete:
            del self.jobs[name]
        for request in create:
            self.jobs[request.name] = ObservedJob(
                name=request.name,
                role=request.role,
                round=request.round,
                environment=request.environment,
                attempt=request.attempt,
                state="succeeded" if self.reports else "running",
                created_at=NOW,
                started_at=NOW,
                report=self.reports.pop(0) if self.reports else None,
            )

    def wait(self, seconds: float) -> None:
        self.waits += 1
        if self.waits > 20:
            raise TimeoutError


@pytest.mark.parametrize(
    "why, stay, ends",
    [
        ("finished", False, "the federation is over"),
        ("finished", True, None),
        ("removed", False, "the federation continues without this silo"),
        ("suspended", False, None),
    ],
)
def test_a_silo_ends_when_the_federation_is_over_unless_it_is_to_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str, stay: bool, ends: str | None
) -> None:
    monkeypatch.setattr(join, "_has_no_order", lambda silo, variables: False)
    monkeypatch.setattr(join, "raise_remembered_stop", lambda: None)  # another test's
    silo, told = Clinic().silo, list[str]()
    order = Reference(serial=1, digest=digest(1))
    head = Cursor(serial=1, digest=digest(1))
    rest = NewestOrder.model_validate({"order": order, "kind": "rest", "why": why})
    couriers = Couriers([SiloReport(sent=head, posted=1), SiloReport(received=head, newest=rest)])
    joining = Joining(key=tmp_path / "key", credentials={}, stay=stay)
    given = (silo, silo.spec, RunDir(tmp_path), couriers, None, joining, told.append)
    if ends:
        assert join._loop(*given).status.phase == "Idle"  # type: ignore[arg-type]
        assert told[-1].endswith(f": Idle: {ends}")
    else:
        with pytest.raises(TimeoutError):
            join._loop(*given)  # type: ignore[arg-type]
    assert " asks " in told[0] and told[1].endswith(": Idle: waits for an order")


def test_idle_is_said_only_once_the_store_has_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(join, "_has_no_order", lambda silo, variables: False)
    monkeypatch.setattr(join, "raise_remembered_stop", lambda: None)  # another test's
    silo, told = Clinic().silo, list[str]()
    joining = Joining(key=tmp_path / "key", credentials={})
    with pytest.raises(TimeoutError):
        join._loop(silo, silo.spec, RunDir(tmp_path), Couriers([]), None, joining, told.append)  # type: ignore[arg-type]
    assert len(told) == 1 and " asks " in told[0]
