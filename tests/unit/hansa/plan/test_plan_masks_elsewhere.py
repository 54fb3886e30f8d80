"""Masked rounds with silos that run elsewhere: orders say who masks against whom, and again."""

from hansa.adapter import masking
from hansa.api.exchange import PostedOrder
from hansa.core.exits import Exit
from hansa.members.order import complete
from tests.support.builders import later
from tests.support.letters import REMOTE, opened
from tests.support.masked_updates import dropped_out, key, masked
from tests.support.members import member

CLINICS = ("bank", "clinic", "school")


def masked_letters():
    """`maze` and three clinics, of which one may be missing; all are there."""
    here = masked("maze")["environments"]
    there = [{"name": name, "maskingKey": key(name), **REMOTE} for name in CLINICS]
    return opened(
        *CLINICS,
        environments=[*here, *there],
        aggregation={"secure": {}},
        participation={"minimumUpdates": 3},
    )


def answer_all_but_school():
    cluster = masked_letters().deliver()
    for name in CLINICS[:2]:
        cluster.hear(name, "taken")
    cluster.answer("maze")
    for name in CLINICS[:2]:
        cluster.answered(name)
    cluster.now = later(4000)
    return cluster.turn()


def test_orders_name_all_silos_of_the_round_with_their_keys() -> None:
    template = masked_letters().courier.template
    assert template.masking.peers == {name: key(name) for name in (*CLINICS, "maze")}
    assert template.masking.epoch == 0


def test_who_dropped_out_elsewhere_is_left_out_and_the_others_get_an_order_to_mask_again() -> None:
    cluster = answer_all_but_school()
    report = dropped_out(1, 0, 1, 2)
    name = cluster.running("aggregator")
    cluster.set(name, "failed", exit_code=Exit.MASK_AGAIN, report=report).turn()
    boxes = {box.environment: box for box in cluster.courier.boxes}
    again = PostedOrder(kind="work", role="client", round=1, epoch=1)
    assert [boxes[each].order for each in CLINICS[:2]] == [again, again]
    assert boxes["school"].work is None
    assert list(cluster.courier.template.masking.peers) == ["bank", "clinic", "maze"]
    cluster.deliver()
    for each in CLINICS[:2]:
        cluster.hear(each, "taken")
    cluster.set("fed-r1-maze-a2", "succeeded", started_at=cluster.now).turn()
    for each in CLINICS[:2]:
        cluster.answered(each)
    cluster.aggregate()
    assert cluster.status.history[1].updates == "3/4"


def test_a_silo_elsewhere_makes_the_same_masks_as_one_of_here() -> None:
    cluster = masked_letters()
    here = cluster.requests["fed-r1-maze-a1"].assignment
    order = cluster.courier.template.model_copy(update={"environment": "clinic"})
    place = {"s3": {"endpoint": "https://ours", "bucket": "bucket", "prefix": "run"}}
    own = {"s3": {"bucket": "own"}}
    silo = member(storage=place, experienceStorage=own, demonstrationsFrom="/own.jsonl")
    there = complete(order, silo)
    assert there.experience_storage and there.world == "maze"
    assert masking.mask_context(there) == masking.mask_context(here)
    digests = [masking.digest_peers(each.masking.peers) for each in (here, there)]
    assert digests[0] == digests[1]
