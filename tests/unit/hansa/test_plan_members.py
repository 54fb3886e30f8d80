"""Silos that run elsewhere: orders go out and answers come in by a courier, and rounds go on."""

import pytest

from hansa import reference
from hansa.assignment import for_environment
from hansa.exchange.tasks import CourierReport, Faults, Moved, News
from hansa.jobs import JobRequest
from hansa.members import MemberStatus
from hansa.status import FederationStatus
from tests.builders import later, make_report, with_spec, with_status
from tests.unit.hansa.test_plan import Cluster

KEY = "ed25519:" + "A" * 43
REMOTE = {"member": {"publicKeys": [KEY]}}


def digest(serial: int) -> str:
    return f"{serial:064x}"


class Letters(Cluster):
    """A coordinator with `maze` of its own, and with clinics elsewhere that tests speak for."""

    def __init__(self, *clinics, **fields):
        self.serials = dict.fromkeys(clinics, 0)
        environments = [{"name": "maze", "world": "maze"}]
        environments += [{"name": name, **REMOTE} for name in clinics]
        super().__init__(
            environments=environments,
            exchange={"publicKeys": [KEY]},
            model={"sha256": "b" * 64},
            adapter={"shapes": "d" * 64},
            **fields,
        )

    @property
    def courier(self):
        """What the running courier was told."""
        name = next((n for n in self.active() if "-mail-" in n), None)
        return self.requests[name].assignment if name else None

    def member(self, name):
        return next(m for m in self.status.members if m.name == name)

    def report(self, report):
        """The courier ends with a report."""
        name = next(n for n in self.active() if "-mail-" in n)
        self.set(name, "succeeded", report=report)
        return self.turn()

    def deliver(self):
        """The courier has posted what it was to post."""
        boxes = self.courier.boxes
        posted = [
            Moved(
                box=index,
                serial=box.sent.serial + 1,
                digest=digest(box.sent.serial + 1),
                order=box.order,
            )
            for index, box in enumerate(boxes)
            if box.work or box.rest
        ]
        return self.report(CourierReport(posted=posted))

    def hear(self, name, kind, **fields):
        """The courier has read one letter of a clinic."""
        boxes = self.courier.boxes
        index = next(i for i, box in enumerate(boxes) if box.environment == name)
        self.serials[name] += 1
        serial = self.serials[name]
        if kind not in ("hello", "leave"):
            fields.setdefault("order", boxes[index].sent.serial)
        return self.report(
            CourierReport(
                read=[Moved(box=index, serial=serial, digest=digest(serial))],
                news=[News(box=index, kind=kind, **fields)],
            )
        )

    def answered(self, name, **fields):
        """The clinic's answer to the order of the open round."""
        current = self.status.current
        told = for_environment(self.federation, current, name)
        request = JobRequest(
            name="",
            role=told.role,
            round=current.round,
            environment=name,
            attempt=1,
            assignment=told,
        )
        return self.hear(name, "answer", report=make_report(request), **fields)

    def state(self, name):
        return next(e.state for e in self.status.current.environments if e.name == name)

    def reasons(self):
        return [event.reason for event in self.events]

    def play_round(self, *clinics):
        """Everybody takes part, and the aggregator commits."""
        self.deliver()
        for name in clinics:
            self.hear(name, "taken")
        self.answer("maze")
        for name in clinics:
            self.answered(name)
        return self.aggregate()

    def answer(self, environment):
        names = [n for n in self.active() if f"-{environment}-" in n]
        return super().answer(*names).turn()

    def aggregate(self):
        names = [n for n in self.active() if "-aggregator-" in n]
        return super().answer(*names).turn()


def opened(*clinics, **fields):
    """A federation whose clinics are there, so that round 1 is open."""
    cluster = Letters(*clinics, **fields)
    if "participation" in fields:  # with a low minimum it would open without them
        there = [MemberStatus(name=name, state="Present") for name in sorted(clinics)]
        cluster.federation = with_status(cluster.federation, FederationStatus(members=there))
        return cluster.turn()
    cluster.turn()
    for name in clinics:
        cluster.hear(name, "hello")
    return cluster


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
    cluster = opened("clinic")
    cluster.deliver()
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
    assert cluster.courier.boxes[0].rest == "finished" and not cluster.courier.listens
    cluster.deliver()
    assert cluster.status.phase == "Succeeded"
    assert cluster.active() == []


def test_a_silo_that_does_not_take_its_order_is_left_out_and_not_waited_for_again() -> None:
    cluster = opened("clinic", participation={"minimumUpdates": 1})
    cluster.deliver().set("fed-r1-maze-a1", "running")
    cluster.now = later(601)
    cluster.turn()
    assert cluster.member("clinic").state == "Away"
    assert "MemberAway" in cluster.reasons()
    cluster.answer("maze").aggregate()
    assert [e.name for e in cluster.status.current.environments] == ["maze"]
    assert cluster.condition("Degraded").reason == "EnvironmentFailed"


def test_one_that_comes_back_takes_part_in_the_next_round() -> None:
    cluster = opened("clinic", "bank", rounds=3, participation={"minimumUpdates": 2})
    cluster.deliver()
    cluster.hear("bank", "taken")
    cluster.now = later(601)
    cluster.turn()
    assert cluster.member("clinic").state == "Away"
    cluster.hear("clinic", "hello")
    assert cluster.member("clinic").state == "Present"
    assert cluster.state("clinic") == "Failed", "in this round it stays left out"
    cluster.answer("maze")
    cluster.answered("bank")
    cluster.aggregate()
    assert len(cluster.status.current.environments) == 3


def test_a_silo_that_took_its_order_and_is_silent_is_left_out_by_the_rounds_clock() -> None:
    cluster = opened("clinic", participation={"minimumUpdates": 1})
    cluster.deliver()
    cluster.hear("clinic", "taken")
    cluster.answer("maze")
    cluster.now = later(3601)
    cluster.turn()
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
    cluster = opened("clinic", participation={"minimumUpdates": 1})
    cluster.deliver()
    cluster.hear("clinic", kind, **fields)
    assert cluster.state("clinic") == "Failed"
    line = next(e for e in cluster.status.environments if e.name == "clinic")
    assert message in line.message
    assert ("OrderRefused" in cluster.reasons()) == (kind == "refused")


def test_who_has_left_comes_back_by_any_letter() -> None:
    cluster = opened("clinic", "bank", participation={"minimumUpdates": 1})
    cluster.deliver()
    cluster.hear("clinic", "leave")
    assert cluster.member("clinic").state == "Left"
    cluster.hear("clinic", "hello")
    assert cluster.member("clinic").state == "Present"


def test_what_is_said_of_an_older_order_only_shows_that_somebody_is_there() -> None:
    cluster = opened("clinic")
    cluster.deliver()
    cluster.hear("clinic", "refused", order=7, code="most", path="seed")
    assert cluster.state("clinic") == "Starting"


def test_an_answer_to_another_question_fails_that_silo_alone() -> None:
    cluster = opened("clinic", "bank", participation={"minimumUpdates": 1})
    cluster.deliver()
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
    cluster = opened("clinic", participation={"minimumUpdates": 1})
    cluster.deliver()
    cluster.hear("clinic", "waits", code="budget")
    cluster.now = later(5000)
    cluster.turn()
    assert cluster.state("clinic") == "Queued"


def test_no_clock_runs_before_an_order_is_posted() -> None:
    cluster = opened("clinic", participation={"minimumUpdates": 1})
    cluster.now = later(5000)
    cluster.turn()
    assert cluster.state("clinic") == "Queued"


# -- the courier ------------------------------------------------------------------------------


def test_a_courier_that_cannot_reach_the_store_is_tried_again_without_end() -> None:
    cluster = opened("clinic")
    for attempt in range(12):
        name = f"fed-mail-a{2 + attempt}"
        cluster.now = later(100 * (attempt + 1))
        cluster.turn()
        assert name in cluster.active()
        cluster.set(name, "failed", exit_code=44).turn()
    assert cluster.status.failed is None
    assert cluster.status.courier.failures == 12
    cluster.now = later(5000)
    cluster.turn().deliver()
    assert cluster.status.courier.failures == 0
    assert cluster.status.courier.message == ""


def test_why_a_courier_does_not_start_is_shown_until_it_runs() -> None:
    cluster = opened("clinic")
    cluster.set("fed-mail-a2", "starting", message="Secret hansa-signing does not consent").turn()
    degraded = cluster.condition("Degraded")
    assert (degraded.status, degraded.reason) == ("True", "ExchangeFailed")
    assert degraded.message == "courier: Secret hansa-signing does not consent"
    cluster.set("fed-mail-a2", "running").turn()
    assert cluster.condition("Degraded").reason == "AllHealthy"


def test_what_the_last_courier_failed_of_is_shown_until_one_does_well() -> None:
    cluster = opened("clinic")
    cluster.set("fed-mail-a2", "failed", exit_code=44).turn()
    cluster.now = later(10)
    cluster.turn().set("fed-mail-a3", "running").turn()
    assert "did not answer" in cluster.condition("Degraded").message
    cluster.deliver()
    assert cluster.condition("Degraded").reason == "AllHealthy"


def test_a_lost_report_costs_one_more_courier() -> None:
    cluster = opened("clinic")
    cluster.set("fed-mail-a2", "succeeded", report=None).turn()
    cluster.now = later(10)
    cluster.turn()
    assert "fed-mail-a3" in cluster.active()
    assert cluster.courier.boxes[0].work


def test_a_report_about_boxes_that_there_are_not_counts_as_lost() -> None:
    cluster = opened("clinic")
    cluster.report(CourierReport(posted=[Moved(box=1, serial=1, digest=digest(1))]))
    assert cluster.member("clinic").sent.serial == 0


@pytest.mark.parametrize("failure", [{"exit_code": 42}, {"reason": "CannotStart"}])
def test_a_courier_that_can_never_work_stops_the_round_until_a_person_asks(failure) -> None:
    cluster = opened("clinic")
    cluster.set("fed-mail-a2", "failed", message="the key is another's", **failure).turn()
    assert cluster.status.phase == "Failed"
    assert cluster.condition("Progressing").reason == "ExchangeFailed"
    assert "the key is another's" in cluster.condition("Progressing").message
    cluster.federation = with_spec(cluster.federation, participation={"retries": 3})
    cluster.now = later(10)
    cluster.turn()
    assert "fed-mail-a3" in cluster.active()


def test_it_also_stops_a_federation_that_waits_for_silos() -> None:
    cluster = Letters("clinic").turn()
    cluster.set("fed-mail-a1", "failed", exit_code=42).turn()
    assert cluster.condition("Progressing").reason == "ExchangeFailed"
    assert cluster.active() == []


def test_a_courier_that_crashes_again_and_again_asks_for_a_person() -> None:
    cluster = opened("clinic")
    for attempt in range(6):
        cluster.now = later(100 * (attempt + 1))
        cluster.turn()
        cluster.set(f"fed-mail-a{2 + attempt}", "failed", exit_code=1).turn()
    assert cluster.condition("Progressing").reason == "ExchangeFailed"


def test_objects_that_are_no_letters_are_told() -> None:
    cluster = opened("clinic")
    cluster.report(
        CourierReport(
            read=[Moved(box=0, serial=9, digest=digest(1))],
            faults=[Faults(box=0, code="signature", count=8), Faults(box=0, code="new", count=1)],
        )
    )
    told = [e.message for e in cluster.events if e.reason == "LetterRefused"]
    assert told == [
        "clinic: 8 objects in its log: the letter is not what the named key has signed",
        "clinic: 1 object in its log: new",
    ]
    assert cluster.member("clinic").received.serial == 9


def test_of_ended_couriers_the_newest_stays_for_its_log() -> None:
    cluster = opened("clinic", "bank")
    cluster.deliver()
    cluster.hear("bank", "taken")
    cluster.hear("clinic", "taken")
    ended = sorted(n for n, j in cluster.jobs.items() if "-mail-" in n and not j.is_active)
    assert len(ended) == 1


def test_a_silos_new_key_counts_at_once_and_a_removed_one_no_more() -> None:
    cluster = opened("clinic")
    cluster.deliver()
    assert reference.find("spec.environments.member.publicKeys").change == reference.AT_ONCE
    new = "ed25519:" + "B" * 43
    environments = cluster.federation.spec.to_json()["environments"]
    environments[1]["member"]["publicKeys"] = [new]
    cluster.federation = with_spec(cluster.federation, environments=environments)
    cluster.turn()
    assert cluster.courier.boxes[0].public_keys == [new]


def test_a_silo_of_this_cluster_cannot_become_one_elsewhere_under_its_name() -> None:
    cluster = opened("clinic")
    environments = cluster.federation.spec.to_json()["environments"]
    environments[0] = {"name": "maze", **REMOTE}
    cluster.federation = with_spec(cluster.federation, environments=environments)
    cluster.turn()
    assert cluster.condition("Accepted").reason == "ImmutableFieldChanged"


def test_a_report_is_about_the_silos_that_its_courier_was_told_of() -> None:
    """Though somebody joined the spec before it was read, and stands before them in the list."""
    cluster = opened("clinic")
    name = next(n for n in cluster.active() if "-mail-" in n)
    posted = [Moved(box=0, serial=1, digest=digest(1), order=cluster.courier.boxes[0].order)]
    cluster.set(name, "succeeded", report=CourierReport(posted=posted))
    environments = [*cluster.federation.spec.to_json()["environments"], {"name": "bank", **REMOTE}]
    cluster.federation = with_spec(cluster.federation, environments=environments)
    cluster.turn()
    assert [(m.name, m.sent.serial) for m in cluster.status.members] == [("bank", 0), ("clinic", 1)]
    assert cluster.state("clinic") == "Starting"


def test_an_order_that_was_posted_while_somebody_suspends_is_taken_back() -> None:
    cluster = opened("clinic")
    name = next(n for n in cluster.active() if "-mail-" in n)
    posted = [Moved(box=0, serial=1, digest=digest(1), order=cluster.courier.boxes[0].order)]
    cluster.set(name, "succeeded", report=CourierReport(posted=posted))
    cluster.federation = with_spec(cluster.federation, suspend=True)
    cluster.turn()
    assert cluster.courier.boxes[0].rest == "suspended"


# -- resting ----------------------------------------------------------------------------------


def test_a_suspended_federation_tells_its_silos_first() -> None:
    cluster = opened("clinic")
    cluster.deliver()
    cluster.federation = with_spec(cluster.federation, suspend=True)
    cluster.turn()
    assert cluster.status.phase == "Running"
    assert cluster.condition("Progressing").reason == "Closing"
    assert cluster.active() == ["fed-mail-a4"]
    assert cluster.courier.boxes[0].rest == "suspended"
    assert "Suspended" not in cluster.reasons()
    cluster.deliver()
    assert cluster.status.phase == "Suspended"
    assert cluster.reasons().count("Suspended") == 1
    assert cluster.active() == []


def test_it_goes_on_with_a_new_order() -> None:
    cluster = opened("clinic")
    cluster.deliver()
    cluster.federation = with_spec(cluster.federation, suspend=True)
    cluster.turn().deliver()
    cluster.federation = with_spec(cluster.federation, suspend=False)
    cluster.turn()
    assert cluster.courier.boxes[0].work
    cluster.deliver()
    assert cluster.member("clinic").sent.serial == 3
    assert cluster.state("clinic") == "Starting"


def test_a_store_that_refuses_does_not_keep_a_federation_from_stopping() -> None:
    cluster = opened("clinic")
    cluster.deliver()
    cluster.federation = with_spec(cluster.federation, suspend=True)
    cluster.turn()
    cluster.set("fed-mail-a4", "failed", exit_code=42).turn()
    assert cluster.status.phase == "Suspended"


def test_a_silo_that_left_the_spec_is_told_and_then_forgotten() -> None:
    cluster = opened("clinic", "bank")
    cluster.deliver()
    kept = [e for e in cluster.federation.spec.to_json()["environments"] if e["name"] != "bank"]
    cluster.federation = with_spec(cluster.federation, environments=kept)
    cluster.turn()
    rests = {b.environment: b.rest for b in cluster.courier.boxes}
    assert rests == {"bank": "removed", "clinic": ""}
    cluster.deliver()
    assert [m.name for m in cluster.status.members] == ["clinic"]


def test_a_federation_without_silos_elsewhere_has_neither_lines_nor_couriers() -> None:
    cluster = Cluster("maze").turn()
    assert cluster.status.members == [] and cluster.status.courier is None
    assert cluster.active() == ["fed-r1-maze-a1"]


def test_in_a_failed_round_nobody_is_told_anything() -> None:
    cluster = opened("clinic", participation={"minimumUpdates": 2, "retries": 0})
    cluster.deliver()
    name = next(n for n in cluster.active() if "-maze-" in n)
    cluster.set(name, "failed", exit_code=42).turn()
    assert cluster.status.phase == "Failed"
    assert cluster.active() == []
