"""A courier posts what is owed, brings what is new, and ends; a second one changes nothing."""

import pytest

from hansa.api.assignment import REPORT_LIMIT, Assignment
from hansa.api.bucket_documents import StartAdapter
from hansa.api.courier_assignment import CourierAssignment, CourierReport, OrderDetails, SiloMail
from hansa.api.exchange import Cursor, PostedOrder
from hansa.api.letters import (
    ANSWERS,
    ORDERS,
    Answer,
    FailedReply,
    Hello,
    RefusedReply,
    TakenReply,
    WaitsReply,
)
from hansa.api.reports import encode_report
from hansa.api.spec import S3
from hansa.core.errors import PermanentError
from hansa.crypto.dsse import generate_signing_key
from hansa.members import courier
from hansa.members.courier import carry, load_key
from hansa.members.mailbox import Mailbox
from tests.support.courier_letters import RUN, answer_of
from tests.support.members import order
from tests.support.memory_store import MemoryStore

COORDINATOR, SILO = generate_signing_key(), generate_signing_key()
STORAGE = S3(bucket="bucket", prefix="run")


def template(**changes) -> Assignment:
    place = {"bucket": "bucket", "prefix": "run"}
    return order(storage=place, environment="", **changes)


def task(*boxes: SiloMail, **fields) -> CourierAssignment:
    return CourierAssignment(
        federation="five",
        run=RUN,
        storage=STORAGE,
        public_keys=[COORDINATOR.public],
        poll_seconds=2,
        boxes=list(boxes),
        **{"template": template(), **fields},
    )


def box(name: str = "clinic", rest: str = "", **fields) -> SiloMail:
    order = PostedOrder(kind="work", role="client", round=1) if fields.get("work") else None
    order = PostedOrder(kind="rest", why=rest) if rest else order
    return SiloMail(environment=name, public_keys=[SILO.public], order=order, **fields)


WORK = OrderDetails(start=StartAdapter())
POSTED: dict[str, None] = {"work": None, "order": None}
"""What a box no longer has once its letter is in the bucket."""


class Silo:
    """The other side: reads its orders and writes answers."""

    def __init__(self, store: MemoryStore, name: str = "clinic") -> None:
        self.name = name
        common = {"store": store, "prefix": "run", "run": RUN, "environment": name}
        self.orders = Mailbox(log=ORDERS, trusted=(COORDINATOR.public,), **common)
        self.answers = Mailbox(log=ANSWERS, trusted=(SILO.public,), **common)
        self.sent = Cursor()

    def newest(self):
        return self.orders.read(Cursor()).entries[-1]

    def say(self, kind, **fields) -> None:
        letter = kind(run=RUN, environment=self.name, **fields)
        self.sent = self.answers.post(letter, self.sent, SILO).cursor

    def reply(self, kind, **fields) -> None:
        entry = self.newest()
        self.say(kind, order={"serial": entry.serial, "digest": entry.digest}, **fields)


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []
        self.then = lambda: None

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept.append(seconds)
        self.then()

    def read(self) -> float:
        return self.now


def run(
    assignment: CourierAssignment, store: MemoryStore, clock: Clock | None = None
) -> CourierReport:
    clock = clock or Clock()
    return carry(assignment, store, COORDINATOR, sleep=clock.sleep, clock=clock.read)


def test_an_order_is_posted_at_its_place_and_reported_at_once() -> None:
    store = MemoryStore()
    report = run(task(box(work=WORK), box("other")), store)
    assert [(m.box, m.serial, m.order.round) for m in report.posted] == [(0, 1, 1)]
    letter = Silo(store).newest().letter
    assert letter.assignment.environment == "clinic"
    assert letter.assignment.start == StartAdapter()
    assert (letter.start_seconds, letter.round_seconds) == (600, 3600)


def test_a_second_courier_with_the_same_task_finds_what_the_first_has_posted() -> None:
    store = MemoryStore()
    first = run(task(box(work=WORK)), store)
    objects = dict(store.objects)
    assert run(task(box(work=WORK)), store) == first
    assert store.objects == objects


@pytest.mark.attack(
    by="a writer of the bucket",
    does="puts old answers into a bucket that was emptied and begun anew",
    result="skipped: orders name a random id of the coordinator's object",
)
def test_where_a_bucket_was_emptied_old_answers_are_to_other_orders() -> None:
    old, new = MemoryStore(), MemoryStore()
    run(task(box(work=WORK), instance="the first"), old)
    Silo(old).reply(TakenReply)
    posted = run(task(box(work=WORK), instance="begun anew"), new).posted[0]
    new.objects |= {key: data for key, data in old.objects.items() if "answers/" in key}
    sent = Cursor(serial=posted.serial, digest=posted.digest)
    report = run(task(box(sent=sent)), new)
    assert report.news == []
    assert [(each.code, each.count) for each in report.faults] == [("order", 1)]


def test_silos_are_told_that_they_may_rest_and_which_adapter_counts() -> None:
    store = MemoryStore()
    kept = StartAdapter(round=3, sha256="c" * 64)
    run(task(box(rest="finished"), adapter=kept, listens=False), store)
    letter = Silo(store).newest().letter
    assert (letter.kind, letter.why, letter.adapter) == ("rest", "finished", kept)


def test_without_anything_to_post_or_to_hear_it_ends_at_once() -> None:
    clock = Clock()
    assert run(task(box(), listens=False), MemoryStore(), clock) == CourierReport()
    assert clock.slept == []


def test_it_listens_until_there_is_news() -> None:
    store, clock = MemoryStore(), Clock()
    silo = Silo(store)

    def speak() -> None:
        if clock.now == 6:
            silo.say(Hello, program="1.0")

    clock.then = speak
    report = run(task(box()), store, clock)
    assert [n.kind for n in report.news] == ["hello"]
    assert [(m.box, m.serial) for m in report.read] == [(0, 1)]
    assert clock.slept == [2, 2, 2, 2], "the last one is for those who answer together"


def test_without_news_it_ends_after_an_hour_for_the_next_one() -> None:
    clock = Clock()
    assert run(task(box()), MemoryStore(), clock) == CourierReport()
    assert clock.now == pytest.approx(courier.LONGEST_SECONDS, abs=2)


def test_every_kind_of_letter_is_brought_as_codes_and_numbers() -> None:
    store = MemoryStore()
    run(task(box(work=WORK)), store)
    silo = Silo(store)
    silo.reply(WaitsReply, code="window", seconds=60)
    silo.reply(TakenReply)
    silo.reply(RefusedReply, code="most", path="settings.exploration.tasksPerRound")
    silo.reply(FailedReply, exit=46, attempts=3)
    silo.reply(Answer, report=answer_of(0))
    entry = silo.newest()
    report = run(task(box(sent=Cursor(serial=1, digest=entry.digest))), store)
    lines = [(n.kind, n.order, n.code, n.path, n.exit) for n in report.news]
    assert lines == [
        ("waits", 1, "window", "", None),
        ("taken", 1, "", "", None),
        ("refused", 1, "most", "settings.exploration.tasksPerRound", None),
        ("failed", 1, "", "", 46),
        ("answer", 1, "", "", None),
    ]
    assert report.news[-1].report == answer_of(0)


def test_many_answers_at_once_take_several_couriers_and_none_is_lost() -> None:
    store = MemoryStore()
    silos = [Silo(store, f"silo-{index:03d}") for index in range(20)]
    boxes = [box(silo.name, work=WORK) for silo in silos]
    all_orders = template(environments=[silo.name for silo in silos])
    heads: dict[int, Cursor] = {}
    couriers = 0
    while len(heads) < len(boxes):
        left = [
            b.model_copy(update={"sent": heads[i], "work": None, "order": None})
            if i in heads
            else b
            for i, b in enumerate(boxes)
        ]
        report = run(task(*left, template=all_orders), store)
        assert len(encode_report(report)) <= REPORT_LIMIT
        heads |= {m.box: Cursor(serial=m.serial, digest=m.digest) for m in report.posted}
        couriers += 1
    for index, silo in enumerate(silos):
        silo.reply(Answer, report=answer_of(index))
    received: dict[int, Cursor] = {}
    heard: list[int] = []
    while len(heard) < len(boxes):
        left = [
            b.model_copy(
                update={
                    "sent": heads[i],
                    "work": None,
                    "order": None,
                    "received": received.get(i, Cursor()),
                }
            )
            for i, b in enumerate(boxes)
        ]
        report = run(task(*left), store)
        assert len(encode_report(report)) <= REPORT_LIMIT
        assert report.news
        received |= {m.box: Cursor(serial=m.serial, digest=m.digest) for m in report.read}
        heard += [n.box for n in report.news]
        couriers += 1
    assert sorted(heard) == list(range(20))
    assert couriers <= 12


def test_garbage_in_one_log_moves_the_cursor_and_is_counted() -> None:
    store = MemoryStore()
    silo = Silo(store)
    for serial in range(1, 4):
        store.objects[f"run/answers/clinic/{serial:06d}.json"] = b"garbage"
    silo.sent = Cursor(serial=3)
    silo.say(Hello, program="1.0")
    report = run(task(box()), store)
    assert [n.kind for n in report.news] == ["hello"]
    assert [(m.box, m.serial) for m in report.read] == [(0, 4)]
    assert [(f.code, f.count) for f in report.faults] == [("malformed", 3)]


def test_an_order_that_garbage_keeps_from_being_posted_is_said_not_to_be() -> None:
    store = MemoryStore()
    for serial in range(1, 40):
        store.objects[f"run/orders/clinic/{serial:06d}.json"] = b"garbage"
    report = run(task(box(work=WORK)), store)
    assert [(m.serial, m.order) for m in report.posted] == [(16, None)]


def test_a_key_that_is_not_the_coordinators_own_posts_nothing() -> None:
    store = MemoryStore()
    with pytest.raises(PermanentError, match="publicKeys"):
        carry(task(box(work=WORK)), store, SILO)
    assert store.objects == {}


def test_an_order_without_what_all_orders_have_is_refused() -> None:
    with pytest.raises(PermanentError, match="template"):
        run(task(box(work=WORK), template=None), MemoryStore())


def test_a_key_file_that_cannot_be_read_is_named(tmp_path) -> None:
    with pytest.raises(PermanentError, match="cannot read"):
        load_key(str(tmp_path / "none"))
    (tmp_path / "key").write_bytes(COORDINATOR.pem())
    assert load_key(str(tmp_path / "key")).public == COORDINATOR.public
