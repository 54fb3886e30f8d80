"""What a silo does while its letters can be neither posted nor read, and when it was doubled."""

import pytest

from hansa.api.exchange import Cursor
from hansa.core.errors import Denied, HansaError
from hansa.plan import member_trouble
from hansa.plan.member_plan import RESTS_POLLS
from tests.support.clinic import Clinic, digest, working
from tests.support.clinic_failures import fail


@pytest.mark.parametrize("trouble", ["Denied", "ClockSkewed"])
def test_what_only_a_person_can_fix_is_shown_and_asked_for_every_twenty_polls(trouble) -> None:
    clinic = fail(Clinic(pollSeconds=15).turn(), 42, trouble=trouble, message="not allowed")
    assert (clinic.status.phase, clinic.status.trouble) == ("Failed", trouble)
    assert clinic.status.message == "courier: not allowed"
    assert clinic.wait(seconds=RESTS_POLLS * 15 - 1).courier is None
    clinic.wait(seconds=1).post()
    assert (clinic.status.phase, clinic.status.trouble) == ("Idle", "")


@pytest.mark.parametrize(
    "error, word", [(Denied("no"), "Denied"), (HansaError("no"), "CourierFailed")]
)
def test_an_error_of_a_courier_is_reported_by_its_word(error: HansaError, word: str) -> None:
    report = member_trouble.build_report(error)
    assert (report.trouble, report.message) == (word, "no")


def test_a_courier_that_could_say_nothing_is_shown_with_what_its_executor_knows() -> None:
    clinic = Clinic().turn()
    clinic.set(clinic.courier, "failed", exit_code=42, message="access denied").turn()
    assert clinic.status.message == "courier: access denied"
    assert clinic.status.trouble == "CourierFailed"


def test_a_store_that_does_not_answer_is_asked_again_while_the_job_goes_on() -> None:
    clinic = fail(working(), 44, trouble="Unreachable", message="no answer")
    assert (clinic.status.phase, clinic.status.trouble) == ("Working", "Unreachable")
    assert clinic.courier is None and clinic.job
    assert clinic.wait(seconds=2).courier and clinic.job


def test_an_order_that_is_gone_ends_all_work_until_it_is_there_again() -> None:
    clinic = fail(working(), 48, trouble="LogReplaced", message="order 1: it is gone")
    assert (clinic.status.phase, clinic.job, clinic.courier) == ("Failed", None, None)
    clinic.wait(days=1)
    assert clinic.job is None, "only the courier looks again"
    assert fail(clinic, 48, trouble="LogReplaced").job is None
    clinic.wait(days=1).post()
    assert clinic.job and clinic.status.phase == "Working"


def test_letters_that_it_does_not_know_are_told_and_gone_behind() -> None:
    clinic = Clinic().turn()
    clinic.report(sent=Cursor(serial=7, digest=digest(7)), posted=1, ahead=True)
    assert clinic.reasons() == ["Twin"]
    assert clinic.status.sent.serial == 7


def test_whoever_missed_an_order_works_for_none_and_says_that_it_is_there() -> None:
    clinic = working()
    clinic.set(clinic.job, "running").turn()
    newest = {"order": {"serial": 2, "digest": digest(2)}, "kind": "rest", "why": "missed"}
    head = Cursor(serial=2, digest=digest(2))
    clinic.report(received=head, newest=newest)
    assert clinic.job is None
    assert clinic.owed() == ["hello"]
    clinic.post()
    assert clinic.owed() == [], "once"
    assert clinic.order(round=2).job == "five-silo-r2-s2-a1"
