"""Silos that run elsewhere: orders go out and answers come in by a courier, and rounds continue."""

import pytest

from tests.support.builders import make_report
from tests.support.letters import Letters, opened


def test_no_round_opens_before_the_silos_are_there_and_somebody_listens() -> None:
    cluster = Letters("clinic").turn()
    assert cluster.status.current is None
    assert cluster.condition("Progressing").reason == "WaitingForMembers"
    assert "clinic (Invited)" in cluster.condition("Progressing").message
    assert cluster.active() == ["fed-mail-a1"]
    assert cluster.courier.listens and not cluster.courier.boxes[0].work


def test_a_letter_brings_a_silo_in_and_the_round_opens_with_its_order() -> None:
    cluster = opened("clinic")
    assert cluster.member("clinic").state == "Present"
    assert cluster.active() == ["fed-mail-a2", "fed-r1-maze-a1"]
    box = cluster.courier.boxes[0]
    assert box.work and box.received.serial == 1
    assert cluster.courier.template.world == ""
    assert cluster.courier.template.storage.endpoint is None
    assert cluster.courier.template.environments == ["clinic", "maze"]
    assert cluster.state("clinic") == "Queued"
    assert "MemberJoined" in cluster.reasons()


def test_a_minimum_lets_a_round_open_without_those_who_are_away() -> None:
    cluster = Letters("bank", "clinic", participation={"minimumUpdates": 2}).turn()
    cluster.hear("clinic", "hello")
    assert [e.name for e in cluster.status.current.environments] == ["clinic", "maze"]


def test_an_order_goes_from_posted_to_taken_to_answered() -> None:
    cluster = opened("clinic").deliver()
    assert cluster.state("clinic") == "Starting"
    assert cluster.member("clinic").sent.serial == 1
    cluster.hear("clinic", "waits", code="window")
    assert cluster.state("clinic") == "Queued"
    cluster.hear("clinic", "taken")
    assert cluster.state("clinic") == "Running"
    assert cluster.status.current.started_at == cluster.now
    cluster.answered("clinic")
    assert cluster.state("clinic") == "Updated"
    cluster.answer("maze")
    assert cluster.courier is None, "nobody is waited for any more"


def test_a_round_that_opened_without_a_silo_listens_for_it() -> None:
    cluster = Letters("clinic", participation={"minimumUpdates": 1}).turn()
    assert [e.name for e in cluster.status.current.environments] == ["maze"]
    cluster.hear("clinic", "hello")
    cluster.answer("maze").aggregate()
    assert [e.name for e in cluster.status.current.environments] == ["clinic", "maze"]


def test_both_kinds_of_silos_are_merged_and_the_last_adapter_is_evaluated_by_both() -> None:
    cluster = opened("clinic", rounds=1)
    cluster.play_round("clinic")
    assert cluster.status.history[-1].updates == "2/2"
    assert cluster.status.current.kind == "evaluate"
    cluster.deliver()
    cluster.hear("clinic", "taken")
    cluster.answered("clinic")
    cluster.answer("maze")
    assert cluster.condition("Progressing").reason == "Closing"
    assert cluster.courier.boxes[0].order.why == "finished" and not cluster.courier.listens
    cluster.deliver()
    assert cluster.status.phase == "Succeeded"
    assert cluster.active() == []


def test_a_silo_that_does_not_take_its_order_is_left_out_and_not_waited_for_again() -> None:
    cluster = (
        opened("clinic", participation={"minimumUpdates": 1})
        .deliver()
        .set("fed-r1-maze-a1", "running")
    )
    cluster.plan_at(601)
    assert cluster.member("clinic").state == "Away"
    assert "MemberAway" in cluster.reasons()
    cluster.answer("maze").aggregate()
    assert [e.name for e in cluster.status.current.environments] == ["maze"]
    assert cluster.condition("Degraded").reason == "EnvironmentFailed"


def test_one_that_comes_back_takes_part_in_the_next_round() -> None:
    cluster = opened("clinic", "bank", rounds=3, participation={"minimumUpdates": 2}).deliver()
    cluster.hear("bank", "taken")
    cluster.plan_at(601)
    assert cluster.member("clinic").state == "Away"
    cluster.hear("clinic", "hello")
    assert cluster.member("clinic").state == "Present"
    assert cluster.state("clinic") == "Failed", "in this round it stays left out"
    cluster.answer("maze")
    cluster.answered("bank")
    cluster.aggregate()
    assert len(cluster.status.current.environments) == 3


def test_a_silo_that_took_its_order_and_is_silent_is_left_out_by_the_rounds_clock() -> None:
    cluster = opened("clinic", participation={"minimumUpdates": 1}).deliver()
    cluster.hear("clinic", "taken")
    cluster.answer("maze")
    cluster.plan_at(3601)
    assert cluster.member("clinic").state == "Present", "it works, only too slowly"
    cluster.aggregate()
    assert cluster.status.history[-1].updates == "1/2"


@pytest.mark.parametrize(
    "kind, fields, message",
    [
        (
            "refused",
            {"code": "most", "path": "settings.exploration.tasksPerRound"},
            "refuses: settings.exploration.tasksPerRound: the value is above what the silo allows",
        ),
        ("refused", {"code": "new-code"}, "refuses: the order: its owner does not allow it"),
        ("failed", {"exit": 46}, "gave up: the training's loss left all bounds"),
        ("leave", {}, "it has left"),
    ],
)
def test_who_will_not_or_cannot_is_out_of_the_round_at_once(kind, fields, message) -> None:
    cluster = opened("clinic", participation={"minimumUpdates": 1}).deliver()
    cluster.hear("clinic", kind, **fields)
    assert cluster.state("clinic") == "Failed"
    line = next(e for e in cluster.status.environments if e.name == "clinic")
    assert message in line.message
    assert ("OrderRefused" in cluster.reasons()) == (kind == "refused")


def test_who_has_left_comes_back_by_any_letter() -> None:
    cluster = opened("clinic", "bank", participation={"minimumUpdates": 1}).deliver()
    cluster.hear("clinic", "leave")
    assert cluster.member("clinic").state == "Left"
    cluster.hear("clinic", "hello")
    assert cluster.member("clinic").state == "Present"


def test_what_is_said_of_an_older_order_only_shows_that_somebody_is_there() -> None:
    cluster = opened("clinic").deliver()
    cluster.hear("clinic", "refused", order=7, code="most", path="seed")
    assert cluster.state("clinic") == "Starting"


def test_an_answer_to_another_question_fails_that_silo_alone() -> None:
    cluster = opened("clinic", "bank", participation={"minimumUpdates": 1}).deliver()
    index = [b.environment for b in cluster.courier.boxes].index("bank")
    assert index == 0
    cluster.answered("bank")
    other = cluster.status.current.environments
    assert [e.state for e in other][:2] == ["Updated", "Starting"]
    report = make_report(
        next(r for n, r in cluster.requests.items() if "-maze-" in n), trained=True
    )
    cluster.hear("clinic", "answer", report=report)
    assert cluster.state("clinic") == "Failed"
    assert cluster.state("bank") == "Updated"


def test_a_waiting_silo_has_no_clock() -> None:
    cluster = opened("clinic", participation={"minimumUpdates": 1}).deliver()
    cluster.hear("clinic", "waits", code="budget")
    cluster.plan_at(5000)
    assert cluster.state("clinic") == "Queued"


def test_no_clock_runs_before_an_order_is_posted() -> None:
    cluster = opened("clinic", participation={"minimumUpdates": 1})
    cluster.plan_at(5000)
    assert cluster.state("clinic") == "Queued"
