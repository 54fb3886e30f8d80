"""The courier between a coordinator and its silos: what it brings, how it fails, when it rests."""

import pytest

from hansa.api.bucket_documents import AuditHead
from hansa.api.courier_assignment import CourierReport, LetterFaults, LogAdvance
from hansa.core.exits import Exit
from hansa.manifests import reference
from tests.support.builders import make_report, with_spec
from tests.support.letters import REMOTE, Letters, digest, opened
from tests.support.simulated_cluster import Cluster


def test_a_courier_that_cannot_reach_the_store_is_tried_again_without_end() -> None:
    cluster = opened("clinic")
    for attempt in range(12):
        name = f"fed-mail-a{2 + attempt}"
        cluster.plan_at(100 * (attempt + 1))
        assert name in cluster.active()
        cluster.set(name, "failed", exit_code=44).turn()
    assert cluster.status.failed is None
    assert cluster.status.courier.failures == 12
    cluster.plan_at(5000).deliver()
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
    cluster.plan_at(10).set("fed-mail-a3", "running").turn()
    assert "did not answer" in cluster.condition("Degraded").message
    cluster.deliver()
    assert cluster.condition("Degraded").reason == "AllHealthy"


def test_a_lost_report_costs_one_more_courier() -> None:
    cluster = opened("clinic")
    cluster.set("fed-mail-a2", "succeeded", report=None).turn()
    cluster.plan_at(10)
    assert "fed-mail-a3" in cluster.active()
    assert cluster.courier.boxes[0].work


def test_a_report_about_boxes_that_there_are_not_counts_as_lost() -> None:
    cluster = opened("clinic")
    cluster.report(CourierReport(posted=[LogAdvance(box=1, serial=1, digest=digest(1))]))
    assert cluster.member("clinic").sent.serial == 0


@pytest.mark.parametrize("failure", [{"exit_code": 42}, {"reason": "CannotStart"}])
def test_a_courier_that_can_never_work_stops_the_round_until_a_person_asks(failure) -> None:
    cluster = opened("clinic")
    cluster.set("fed-mail-a2", "failed", message="the key is another's", **failure).turn()
    assert cluster.status.phase == "Failed"
    assert cluster.condition("Progressing").reason == "ExchangeFailed"
    assert "the key is another's" in cluster.condition("Progressing").message
    cluster.federation = with_spec(cluster.federation, participation={"retries": 3})
    cluster.plan_at(10)
    assert "fed-mail-a3" in cluster.active()


def test_it_also_stops_a_federation_that_waits_for_silos() -> None:
    cluster = Letters("clinic").turn()
    cluster.set("fed-mail-a1", "failed", exit_code=42).turn()
    assert cluster.condition("Progressing").reason == "ExchangeFailed"
    assert cluster.active() == []


def test_a_courier_that_crashes_again_and_again_asks_for_a_person() -> None:
    cluster = opened("clinic")
    for attempt in range(6):
        cluster.plan_at(100 * (attempt + 1))
        cluster.set(f"fed-mail-a{2 + attempt}", "failed", exit_code=1).turn()
    assert cluster.condition("Progressing").reason == "ExchangeFailed"


def test_objects_that_are_no_letters_are_told() -> None:
    cluster = opened("clinic")
    cluster.report(
        CourierReport(
            read=[LogAdvance(box=0, serial=9, digest=digest(1))],
            faults=[
                LetterFaults(box=0, code="signature", count=8),
                LetterFaults(box=0, code="new", count=1),
            ],
        )
    )
    lines = [e.message for e in cluster.events if e.reason == "LetterRefused"]
    assert lines == [
        "clinic: 8 objects in its log: the letter is not what the named key has signed",
        "clinic: 1 object in its log: new",
    ]
    assert cluster.member("clinic").received.serial == 9


def test_of_ended_couriers_the_newest_stays_for_its_log() -> None:
    cluster = opened("clinic", "bank").deliver()
    cluster.hear("bank", "taken")
    cluster.hear("clinic", "taken")
    ended = sorted(n for n, j in cluster.jobs.items() if "-mail-" in n and not j.is_active)
    assert len(ended) == 1


def test_a_silos_new_key_counts_at_once_and_a_removed_one_no_more() -> None:
    cluster = opened("clinic").deliver()
    assert reference.find("spec.environments.member.publicKeys").change == reference.AT_ONCE
    new = "ed25519:" + "B" * 43
    environments = cluster.federation.spec.to_json()["environments"]
    environments[1]["member"]["publicKeys"] = [new]
    cluster.change(environments=environments)
    assert cluster.courier.boxes[0].public_keys == [new]


def test_a_silo_of_this_cluster_cannot_become_one_elsewhere_under_its_name() -> None:
    cluster = opened("clinic")
    environments = cluster.federation.spec.to_json()["environments"]
    environments[0] = {"name": "maze", **REMOTE}
    cluster.change(environments=environments)
    assert cluster.condition("Accepted").reason == "ImmutableFieldChanged"


def posted_at_once() -> Letters:
    """The courier has posted the first order, which nobody has read from its report yet."""
    cluster = opened("clinic")
    posted = [LogAdvance(box=0, serial=1, digest=digest(1), order=cluster.courier.boxes[0].order)]
    return cluster.set(cluster.running("mail"), "succeeded", report=CourierReport(posted=posted))


def test_a_report_is_about_the_silos_that_its_courier_was_told_of() -> None:
    """Though somebody joined the spec before it was read, and stands before them in the list."""
    cluster = posted_at_once()
    environments = [*cluster.federation.spec.to_json()["environments"], {"name": "bank", **REMOTE}]
    cluster.change(environments=environments)
    assert [(m.name, m.sent.serial) for m in cluster.status.members] == [("bank", 0), ("clinic", 1)]
    assert cluster.state("clinic") == "Starting"


def test_an_order_that_garbage_kept_from_its_place_is_owed_behind_it() -> None:
    cluster = opened("clinic")
    cluster.report(CourierReport(posted=[LogAdvance(box=0, serial=16, digest="")]))
    assert cluster.member("clinic").order is None
    box = cluster.courier.boxes[0]
    assert box.work and box.sent.serial == 16


def test_an_order_that_was_posted_while_somebody_suspends_is_taken_back() -> None:
    cluster = posted_at_once()
    cluster.change(suspend=True)
    assert cluster.courier.boxes[0].order.why == "suspended"


# -- resting ----------------------------------------------------------------------------------


def test_a_suspended_federation_tells_its_silos_first() -> None:
    cluster = opened("clinic").deliver()
    cluster.change(suspend=True)
    assert cluster.status.phase == "Running"
    assert cluster.condition("Progressing").reason == "Closing"
    assert cluster.active() == ["fed-mail-a4"]
    assert cluster.courier.boxes[0].order.why == "suspended"
    assert "Suspended" not in cluster.reasons()
    cluster.deliver()
    assert cluster.status.phase == "Suspended"
    assert cluster.reasons().count("Suspended") == 1
    assert cluster.active() == []


def test_it_goes_on_with_a_new_order() -> None:
    cluster = opened("clinic").deliver()
    cluster.change(suspend=True).deliver()
    cluster.change(suspend=False)
    assert cluster.courier.boxes[0].work
    cluster.deliver()
    assert cluster.member("clinic").sent.serial == 3
    assert cluster.state("clinic") == "Starting"


def test_a_store_that_refuses_does_not_keep_a_federation_from_stopping() -> None:
    cluster = opened("clinic").deliver()
    cluster.change(suspend=True)
    cluster.set("fed-mail-a4", "failed", exit_code=42).turn()
    assert cluster.status.phase == "Suspended"


def test_a_silo_that_left_the_spec_is_told_and_then_forgotten() -> None:
    cluster = opened("clinic", "bank").deliver()
    kept = [e for e in cluster.federation.spec.to_json()["environments"] if e["name"] != "bank"]
    cluster.change(environments=kept)
    rests = {b.environment: b.order.why if b.order else "" for b in cluster.courier.boxes}
    assert rests == {"bank": "removed", "clinic": ""}
    cluster.deliver()
    assert [m.name for m in cluster.status.members] == ["clinic"]


def test_a_federation_without_silos_elsewhere_has_neither_lines_nor_couriers() -> None:
    cluster = Cluster("maze").turn()
    assert cluster.status.members == [] and cluster.status.courier is None
    assert cluster.active() == ["fed-r1-maze-a1"]


def test_in_a_failed_round_nobody_is_told_anything() -> None:
    cluster = opened("clinic", participation={"minimumUpdates": 2, "retries": 0}).deliver()
    cluster.set(cluster.running("maze"), "failed", exit_code=42).turn()
    assert cluster.status.phase == "Failed"
    assert cluster.active() == []


def test_orders_name_the_entry_that_the_aggregator_reported() -> None:
    cluster = opened("clinic", rounds=3)
    assert cluster.courier.audit is None
    cluster.play_round("clinic")
    head = AuditHead(round=1, sha256="e" * 63 + "1")
    assert cluster.status.audit == head
    assert cluster.courier.audit == head


def test_the_entry_of_a_round_that_failed_is_named_by_the_next_order() -> None:
    cluster = opened("clinic", rounds=3)
    cluster.play_round("clinic")
    cluster.deliver()
    cluster.hear("clinic", "taken")
    cluster.answer("maze")
    cluster.answered("clinic")
    name = cluster.running("aggregator")
    report = make_report(cluster.requests[name])
    cluster.set(name, "failed", exit_code=Exit.TOO_FEW_UPDATES, report=report).turn()
    assert cluster.status.failed
    assert cluster.status.audit == AuditHead(round=2, sha256="e" * 63 + "2")


def test_a_report_without_an_entry_leaves_the_last_one() -> None:
    cluster = opened("clinic", rounds=3)
    cluster.play_round("clinic")
    cluster.deliver()
    cluster.answer("maze")
    cluster.answered("clinic")
    name = cluster.running("aggregator")
    report = make_report(cluster.requests[name]).model_copy(update={"audit": None})
    cluster.set(name, "succeeded", report=report).turn()
    assert cluster.status.completed == 2
    assert cluster.status.audit == AuditHead(round=1, sha256="e" * 63 + "1")
