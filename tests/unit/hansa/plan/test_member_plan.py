"""A silo follows orders as far as its owner allows, and says what becomes of them."""

from datetime import UTC, datetime, timedelta

import pytest

from hansa.api.exchange import Cursor
from hansa.api.letters import Reference
from hansa.api.silo_assignment import NewestOrder, SiloReport
from hansa.core.exits import Exit
from hansa.plan.member_plan import GREET_SECONDS, follow
from tests.support.clinic import EVALUATED, NOW, REPORT, WINDOW, Clinic, digest, edited, working
from tests.support.members import member


def test_it_says_that_it_is_there_and_then_listens() -> None:
    clinic = Clinic().turn()
    assert clinic.owed() == ["hello"]
    clinic.post()
    assert clinic.owed() == [] and clinic.status.phase == "Idle"


def test_it_says_so_again_after_an_hour_of_silence_and_not_before() -> None:
    clinic = Clinic().turn().post()
    assert clinic.wait(seconds=GREET_SECONDS - 1).owed() == []
    assert clinic.wake_at == NOW + timedelta(seconds=GREET_SECONDS)
    assert clinic.wait(seconds=1).owed() == ["hello"]


def test_an_order_that_is_allowed_is_taken_and_gets_a_job() -> None:
    clinic = working()
    assert clinic.owed() == ["taken"]
    assert clinic.job == "five-silo-r1-s1-a1"
    assert clinic.status.phase == "Working"
    assert clinic.status.usage.rounds == 1 and clinic.status.usage.episodes == 164
    assignment = clinic.requests[clinic.job].assignment
    assert (assignment.role, assignment.order.serial) == ("client", 1)


def test_the_job_that_personalises_is_told_what_the_silo_answered_with() -> None:
    clinic = working().post()
    assert clinic.requests[clinic.job].assignment.answered == ""
    clinic.set(clinic.job, "succeeded", report=REPORT).turn().post()
    clinic.order(role="evaluate", round=1)
    assert clinic.requests[clinic.job].assignment.answered == REPORT.manifest
    clinic.post().order(role="evaluate", round=2)
    assert clinic.requests[clinic.job].assignment.answered == ""


def test_its_report_becomes_the_answer() -> None:
    clinic = working().post()
    clinic.set(clinic.job, "succeeded", report=REPORT).turn()
    assert clinic.owed() == ["answer"]
    letter = clinic.requests[clinic.courier].assignment.post[0]
    assert (letter.report, letter.order.serial) == (REPORT, 1)
    assert clinic.status.rounds[-1].outcome == "answered"
    assert clinic.status.rounds[-1].explored == 10
    assert clinic.post().status.phase == "Idle"


def test_an_evaluation_is_charged_once_also_when_the_client_judges_it_again() -> None:
    clinic = Clinic().turn().post().order(role="evaluate", round=3, episodes=100)
    assert clinic.job == "five-silo-e3-s1-a1"
    assert clinic.status.usage.episodes == 100 and clinic.status.usage.rounds == 0
    assert clinic.requests[clinic.job].assignment.usage.episodes == 0
    clinic.set(clinic.job, "succeeded", report=EVALUATED).turn()
    assert clinic.status.rounds[-1].role == "evaluate"


def test_what_limits_do_not_allow_is_refused_and_starts_nothing() -> None:
    clinic = Clinic().turn().post()
    clinic.order(veto="most", path="settings.exploration.tasksPerRound", message="got 512")
    assert clinic.owed() == ["refused"] and clinic.job is None
    letter = clinic.requests[clinic.courier].assignment.post[0]
    assert (letter.code, letter.path) == ("most", "settings.exploration.tasksPerRound")
    assert clinic.status.phase == "Refusing"
    assert clinic.status.usage.rounds == 0
    assert "OrderRefused" in clinic.reasons()
    assert clinic.status.rounds[-1].outcome == "refused"


def test_the_newest_order_wins() -> None:
    clinic = working()
    first = clinic.job
    clinic.order(round=2)
    assert clinic.job == "five-silo-r2-s2-a1" and first not in clinic.jobs
    assert clinic.status.usage.rounds == 2


def test_a_repeated_order_is_free_once_its_work_was_answered_and_its_round_counts_once() -> None:
    clinic = Clinic().turn().post().order(work="e" * 64).order(work="e" * 64)
    assert clinic.job == "five-silo-r1-s2-a1"
    assert clinic.status.usage.rounds == 1 and clinic.status.usage.episodes == 2 * 164
    clinic.set(clinic.job, "succeeded", report=REPORT).turn().order(round=1, work="e" * 64)
    assert clinic.job == "five-silo-r1-s3-a1"
    assert clinic.status.usage.rounds == 1 and clinic.status.usage.episodes == 2 * 164
    clinic.order(round=1, work="f" * 64)
    assert clinic.status.usage.rounds == 1 and clinic.status.usage.episodes == 3 * 164


def test_a_round_in_which_its_jobs_failed_is_none_of_those_agreed() -> None:
    clinic = working()
    clinic.set(clinic.job, "failed", exit_code=int(Exit.PERMANENT)).turn()
    assert (clinic.status.usage.rounds, clinic.status.usage.failed) == (0, 1)
    assert clinic.status.usage.episodes == 164, "what was played stays counted"


def test_a_retry_waits_for_its_owners_hours_and_budget_and_is_charged() -> None:
    day = {"limits": {"jobSeconds": 3600, "jobSecondsPerDay": 7200}}
    clinic = working(**day)
    for attempt in (2, 3):
        clinic.set(clinic.job, "failed", exit_code=int(Exit.CRASHED)).turn()
        clinic.wake()
        assert clinic.status.usage.day_seconds == 7200
        assert clinic.status.usage.episodes == 164, "a retry takes more time, and no new tasks"
        assert (clinic.status.current.state == "Working") is (attempt == 2)
    assert clinic.job is None and clinic.status.current.waits_for == "budget"
    clinic.wait(days=1)
    assert clinic.job == "five-silo-r1-s1-a3"
    assert clinic.status.usage.day_seconds == 3600


def test_a_rest_stops_its_job() -> None:
    clinic = working().order(kind="rest", role="", round=0, episodes=0)
    assert clinic.job is None and clinic.status.phase == "Idle"
    assert clinic.wait(days=1).owed() == [], "who rests is not lost"


def test_outside_its_hours_it_says_once_that_it_waits_and_starts_by_itself() -> None:
    clinic = working(**WINDOW)
    assert clinic.owed() == ["waits"] and clinic.job is None
    letter = clinic.requests[clinic.courier].assignment.post[0]
    assert (letter.code, letter.seconds) == ("window", 36_000)
    assert clinic.status.phase == "Waiting"
    clinic.post().turn()
    assert clinic.owed() == []
    assert clinic.wake_at == datetime(2026, 11, 17, 20, tzinfo=UTC)
    clinic.wake()
    assert clinic.job and clinic.owed() == ["taken"]


def test_a_window_that_closes_does_not_stop_what_runs() -> None:
    clinic = Clinic(**WINDOW)
    clinic.now = datetime(2026, 11, 17, 20, tzinfo=UTC)
    clinic.turn().post().order()
    clinic.set(clinic.job, "running")
    clinic.now = datetime(2026, 11, 18, 6, 30, tzinfo=UTC)
    clinic.silo = clinic.silo.model_copy(
        update={"spec": member(limits={**WINDOW["limits"], "jobSeconds": 86_400})}
    )
    assert clinic.turn().job


def test_a_days_budget_is_kept_and_new_the_next_day() -> None:
    limits = {"jobSeconds": 3600, "jobSecondsPerDay": 5400}
    clinic = working(limits=limits).post()
    clinic.set(clinic.job, "succeeded", report=REPORT).turn().post()
    clinic.order(round=2)
    assert clinic.owed() == ["waits"]
    assert clinic.requests[clinic.courier].assignment.post[0].code == "budget"
    assert clinic.wake_at == datetime(2026, 11, 18, tzinfo=UTC)
    assert clinic.wake().job


def test_a_queue_of_its_own_is_told_and_so_is_its_end() -> None:
    clinic = working().post()
    clinic.set(clinic.job, "queued", message="waits in queue gpu").turn()
    assert clinic.owed() == ["waits"]
    clinic.post().turn()
    assert clinic.owed() == [] and clinic.status.phase == "Waiting"
    clinic.set(clinic.job, "running").turn()
    assert clinic.owed() == ["taken"] and clinic.status.phase == "Working"


@pytest.mark.parametrize("exit_code", [42, 46])
def test_a_failure_that_would_come_again_is_told_at_once(exit_code) -> None:
    clinic = working().post()
    clinic.set(clinic.job, "failed", exit_code=exit_code).turn()
    assert clinic.owed() == ["failed"]
    letter = clinic.requests[clinic.courier].assignment.post[0]
    assert (letter.exit, letter.attempts) == (exit_code, 1)
    assert clinic.job is None
    assert clinic.status.rounds[-1].outcome == "failed"


def test_others_are_tried_again_as_often_as_the_owner_says() -> None:
    clinic = working(retries=1).post()
    clinic.set(clinic.job, "failed", exit_code=1).turn()
    assert clinic.owed() == [] and clinic.job is None
    assert clinic.wait(seconds=2).job == "five-silo-r1-s1-a2"
    clinic.set(clinic.job, "failed", exit_code=1, reason="CannotStart").turn()
    assert clinic.owed() == ["failed"]


def test_a_disruption_and_a_lost_report_do_not_count() -> None:
    clinic = working(retries=0).post()
    clinic.set(clinic.job, "failed", reason="Disrupted").turn()
    clinic.wait(seconds=2).set(clinic.job, "succeeded", report=None).turn()
    assert clinic.wait(seconds=5).job == "five-silo-r1-s1-a3"


def test_a_job_that_does_not_start_in_time_has_failed() -> None:
    clinic = working(retries=0, startTimeoutSeconds=60).post()
    assert clinic.wake_at == NOW + timedelta(seconds=60)
    clinic.wait(seconds=60)
    assert clinic.owed() == ["failed"]
    assert "did not start within 60 s" in clinic.status.current.message


def test_a_job_that_takes_longer_than_its_owner_allows_has_failed() -> None:
    clinic = working(retries=0, limits={"jobSeconds": 100}).post()
    clinic.set(clinic.job, "running").turn()
    clinic.wait(seconds=100)
    assert clinic.owed() == ["failed"] and clinic.job is None


def test_a_suspended_silo_runs_nothing_and_goes_on_where_it_stood() -> None:
    clinic = edited(working().post(), suspend=True)
    assert clinic.active() == [] and clinic.status.phase == "Suspended"
    assert edited(clinic).job == "five-silo-r1-s1-a1"


def test_who_leaves_says_so_once_and_is_back_when_the_owner_wants() -> None:
    clinic = edited(working().post(), leave=True)
    assert clinic.owed() == ["leave"] and clinic.job is None
    clinic.post()
    assert clinic.active() == [] and clinic.status.phase == "Left"
    edited(clinic)
    assert clinic.job and clinic.courier


def test_who_thinks_better_of_it_before_it_was_said_does_not_say_it() -> None:
    clinic = edited(working().post(), leave=True)
    assert clinic.owed() == ["leave"]
    edited(clinic)
    assert clinic.owed() == ["hello"] or clinic.owed() == []
    assert all(letter.kind != "leave" for letter in clinic.status.owed)


def test_objects_that_are_no_orders_are_told() -> None:
    clinic = Clinic().turn().report(posted=1, faults=[("signature", 2), ("new", 1)])
    lines = [e.message for e in clinic.events if e.reason == "LetterRefused"]
    assert lines == [
        "2 in the log of orders: the letter is not what the named key has signed",
        "1 in the log of orders: new",
    ]


def test_why_a_job_does_not_start_is_said_until_it_runs() -> None:
    clinic = Clinic().turn().post()
    clinic.order()
    clinic.set(clinic.job, "starting", message="waits for a node").turn()
    assert clinic.status.current.message == "waits for a node"
    clinic.set(clinic.job, "running").turn()
    assert clinic.status.current.message == ""


def test_why_a_courier_does_not_start_is_said_until_it_runs() -> None:
    clinic = Clinic().turn()
    words = "Secret hansa-signing does not consent to this use"
    clinic.set(clinic.courier, "starting", message=words).turn()
    (connected,) = [c for c in clinic.status.conditions if c.type == "Connected"]
    assert (connected.status, connected.message) == ("Unknown", words)
    clinic.set(clinic.courier, "running").turn()
    (connected,) = [c for c in clinic.status.conditions if c.type == "Connected"]
    assert words not in connected.message


def test_an_order_is_taken_in_the_status_before_its_job_is_asked_for() -> None:
    clinic = Clinic().turn().post()
    taken = Cursor(serial=1, digest=digest(1))
    order = NewestOrder(
        order=Reference(serial=1, digest=digest(1)), kind="work", role="client", round=1
    )
    clinic.set(clinic.courier, "succeeded", report=SiloReport(received=taken, newest=order))
    plan = follow(clinic.silo, list(clinic.jobs.values()), NOW)
    assert plan.status.current.state == "Working"
    assert (plan.create, plan.wake_at) == ([], NOW)
