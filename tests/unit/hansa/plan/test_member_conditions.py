"""A silo's conditions say whether its letters come through, its orders fit and it works."""

from datetime import timedelta
from typing import Any

import pytest

from hansa.api.assignment import EvaluationReport
from hansa.plan.member_conditions import REMEDIES, conclude
from tests.support.clinic import (
    EVALUATED,
    NOW,
    REPORT,
    WINDOW,
    Clinic,
    edited,
    working,
)


def said(clinic: Any, type_: str) -> tuple[str, str, str]:
    condition = next(c for c in clinic.status.conditions if c.type == type_)
    return condition.status, condition.reason, condition.message


def in_trouble(trouble: str, message: str) -> Any:
    """A silo whose last courier ended so, as `follow` notes it."""
    clinic = working()
    courier = clinic.status.courier.model_copy(update={"message": message})
    status = clinic.status.model_copy(update={"trouble": trouble, "courier": courier})
    clinic.silo = clinic.silo.model_copy(
        update={"status": conclude(clinic.silo, status, clinic.now)}
    )
    return clinic


def test_before_its_first_letter_nothing_is_known_but_that_it_was_accepted() -> None:
    clinic = Clinic().turn()
    assert [c.type for c in clinic.status.conditions] == [
        *("Accepted", "Allowed", "Connected", "Working")
    ]
    assert said(clinic, "Accepted")[:2] == ("True", "Valid")
    assert said(clinic, "Connected")[:2] == ("Unknown", "NotYet")
    assert said(clinic, "Allowed")[:2] == ("Unknown", "NoOrder")
    assert said(clinic, "Working")[:2] == ("False", "NoOrder")


def test_a_courier_that_cannot_start_yet_says_why() -> None:
    clinic = Clinic().turn()
    clinic.set(clinic.courier, "starting", message="Secret clinic-signing: there is none").turn()
    assert said(clinic, "Connected") == (
        *("Unknown", "NotYet"),
        "Secret clinic-signing: there is none",
    )


def test_what_the_last_courier_failed_of_is_told_while_the_next_one_starts() -> None:
    clinic = Clinic().turn()
    clinic.set(clinic.courier, "failed", exit_code=44, message="no answer").turn()
    clinic.wait(seconds=10).set(
        clinic.courier, "starting", message="its Pod waits for a node"
    ).turn()
    assert said(clinic, "Connected")[2].startswith("no answer; ")
    clinic.set(
        clinic.courier, "starting", reason="ConsentMissing", message="add the key to the Secret"
    ).turn()
    assert said(clinic, "Connected")[2].startswith("add the key to the Secret; ")


def test_an_order_that_is_worked_on_makes_all_of_them_true() -> None:
    clinic = working().post()
    clinic.set(clinic.job, "running").turn()
    assert {c.status for c in clinic.status.conditions} == {"True"}
    assert said(clinic, "Connected")[2] == "orders are read up to 1, letters are posted up to 2"
    assert said(clinic, "Working")[2] == "order 1, client of round 1"
    assert clinic.status.round == 1


def test_an_order_that_is_refused_is_told_with_field_value_and_limit() -> None:
    clinic = Clinic().turn().post()
    path = "settings.exploration.tasksPerRound"
    clinic.order(veto="most", path=path, message=f"{path}: got 512, allowed at most 128")
    sentence = f"order 1 refused: {path}: got 512, allowed at most 128"
    assert said(clinic, "Allowed") == ("False", "Refused", sentence)
    assert said(clinic, "Working")[:2] == ("False", "Refused")


@pytest.mark.parametrize("trouble", REMEDIES)
def test_letters_that_do_not_come_through_are_told_with_what_to_do(trouble: Any) -> None:
    clinic = in_trouble(trouble, "the store said no")
    assert said(clinic, "Connected") == (
        *("False", trouble),
        f"the store said no; {REMEDIES[trouble]}",
    )


def test_nothing_is_worked_on_while_the_log_of_orders_is_another_one() -> None:
    assert said(in_trouble("LogReplaced", "order 1 is gone"), "Working")[1] == "LogReplaced"
    assert said(in_trouble("Unreachable", "no answer"), "Working")[1] == "Working"


def test_what_an_order_waits_for_and_how_it_ended_is_told() -> None:
    waits = working(**WINDOW)
    assert said(waits, "Working") == (
        *("False", "Waiting"),
        "order 1, client of round 1: waits for its owner's hours",
    )
    queued = working().post()
    queued.set(queued.job, "queued", message="waits in queue gpu").turn()
    assert said(queued, "Working")[1:] == (
        "Waiting",
        "order 1, client of round 1: waits in queue gpu",
    )
    failed = working().post()
    failed.set(failed.job, "failed", exit_code=42, message="no such world").turn()
    assert said(failed, "Working")[1:] == (
        "JobFailed",
        "order 1, client of round 1: no such world",
    )
    done = working().post()
    done.set(done.job, "succeeded", report=REPORT).turn()
    assert said(done, "Working")[1] == "Answered"
    resting = working().order(kind="rest", role="", round=0, episodes=0)
    assert said(resting, "Working")[1:] == ("Resting", "order 2 asks for nothing")
    assert said(resting, "Allowed")[1] == "NoOrder"
    assert resting.status.round == 1, "the column keeps the last round that was worked for"


def test_a_silo_that_is_stopped_says_by_what() -> None:
    suspended = edited(working().post(), suspend=True)
    assert said(suspended, "Connected")[:2] == ("Unknown", "Suspended")
    assert said(suspended, "Working")[:2] == ("False", "Suspended")
    leaving = edited(working().post(), leave=True)
    assert said(leaving, "Connected")[1] == "Listening", "it still has to say so"
    assert said(leaving.post(), "Connected")[1] == "Left"


def test_a_condition_keeps_its_moment_until_its_status_changes() -> None:
    clinic = working().post()
    clinic.now += timedelta(minutes=5)
    clinic.set(clinic.job, "succeeded", report=REPORT).turn()
    moments = {c.type: c.last_transition_time for c in clinic.status.conditions}
    assert moments["Connected"] == NOW
    assert moments["Working"] == NOW + timedelta(minutes=5)


def test_conditions_speak_of_the_spec_that_was_read() -> None:
    clinic = Clinic()
    metadata = clinic.silo.metadata.model_copy(update={"generation": 4})
    clinic.silo = clinic.silo.model_copy(update={"metadata": metadata})
    status = clinic.turn().status
    assert {c.observed_generation for c in status.conditions} == {4}
    assert status.observed_generation == 4


def test_the_newest_evaluation_is_the_success_that_is_shown() -> None:
    clinic = working().post()
    measured = EvaluationReport(round=0, episodes=8, successes=3)
    report = REPORT.model_copy(update={"evaluation": measured})
    clinic.set(clinic.job, "succeeded", report=report).turn().post()
    assert clinic.status.success == "0.375"
    clinic.order(round=2)
    clinic.set(clinic.job, "succeeded", report=REPORT).turn().post()
    assert clinic.status.success == "0.375", "a round without an evaluation keeps the last one"
    clinic.order(role="evaluate", round=3)
    clinic.set(clinic.job, "succeeded", report=EVALUATED).turn()
    assert clinic.status.success == "0.500"
    assert [line.success for line in clinic.status.rounds] == ["0.375", "", "0.500"]
