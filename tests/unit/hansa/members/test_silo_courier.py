"""A silo's courier says what it cannot do, believes no exchanged log, and goes behind a twin."""

from typing import Any

import pytest

from hansa.api import bucket_keys
from hansa.api.exchange import Cursor
from hansa.api.letters import ANSWERS, ORDERS, Reference, Rest
from hansa.api.member_spec import MemberSpec
from hansa.api.member_status import PendingLetter, SiloUsage
from hansa.api.silo_assignment import SiloCourierAssignment, SiloReport
from hansa.core.errors import ClockSkewed, Denied, HansaError, LogReplaced, Unreachable, Untrusted
from hansa.crypto.dsse import SigningKey
from hansa.members.mailbox import Mailbox
from hansa.members.silo_courier import carry
from tests.support import mail
from tests.support.mail import COORDINATOR, SILO, THIEF
from tests.support.members import member
from tests.support.memory_store import MemoryStore

HELLO = PendingLetter(kind="hello")


def spec(**changes: Any) -> MemberSpec:
    """The silo `maze` of tests/support/mail.py."""
    names = {"name": "fed", "run": mail.RUN, "environment": mail.ENVIRONMENT}
    return member(
        federation={**names, "publicKeys": [COORDINATOR.public]},
        storage={"s3": {"bucket": "bucket", "prefix": "run"}},
        publicKeys=[SILO.public],
        **changes,
    )


def courier_task(
    *post: PendingLetter, sent: Cursor | None = None, received: Cursor | None = None
) -> SiloCourierAssignment:
    order = Reference(**received.model_dump()) if received and received.digest else None
    return SiloCourierAssignment(
        member=spec(),
        usage=SiloUsage(),
        sent=sent or Cursor(),
        received=received or Cursor(),
        order=order,
        post=list(post),
    )


def run(task: SiloCourierAssignment, store: MemoryStore, key: SigningKey = SILO) -> SiloReport:
    """One courier, which listens once."""
    ticks = iter([0.0, 10_000.0])
    return carry(task, store, key, sleep=lambda seconds: None, clock=lambda: next(ticks))


def orders(store: MemoryStore, *letters: Any) -> Cursor:
    """The coordinator's log with these letters; where it ends."""
    box = mail.box(ORDERS, store)
    cursor = box.read(Cursor()).cursor
    for letter in letters:
        cursor = box.post(letter, cursor, COORDINATOR).cursor
    return cursor


@pytest.mark.parametrize("lost", ["everything", "the order", "its bytes"])
def test_an_accepted_order_that_is_gone_or_another_one_ends_it_before_it_posts(lost: str) -> None:
    store = MemoryStore()
    received = orders(store, mail.work())
    key = bucket_keys.order("run", mail.ENVIRONMENT, 1)
    store.objects.pop(key)
    if lost == "its bytes":  # signed by the coordinator, and another one all the same
        orders(store, mail.work(round=2))
    if lost == "everything":
        store.objects.clear()
    with pytest.raises(LogReplaced, match="order 1: it is gone from the bucket or is another"):
        run(courier_task(HELLO, received=received), store)
    assert mail.box(ANSWERS, store).look(1) is None


def test_an_accepted_order_that_is_garbage_now_ends_it_too() -> None:
    store = MemoryStore()
    received = orders(store, mail.work())
    store.objects[bucket_keys.order("run", mail.ENVIRONMENT, 1)] = b"{}"
    with pytest.raises(LogReplaced):
        run(courier_task(received=received), store)


def test_an_accepted_order_whose_key_was_revoked_since_is_still_there() -> None:
    store = MemoryStore()
    received = orders(store, mail.work())
    others = spec().federation.model_copy(update={"public_keys": [THIEF.public]})
    task = courier_task(HELLO, received=received)
    task = task.model_copy(update={"member": spec().model_copy(update={"federation": others})})
    assert run(task, store).posted == 1


def test_garbage_that_was_skipped_may_lie_where_it_lay() -> None:
    store = MemoryStore()
    store.put_if_absent(bucket_keys.order("run", mail.ENVIRONMENT, 1), b"{}")
    report = run(courier_task(), store)
    assert report.received == Cursor(serial=1, digest="")
    assert run(courier_task(received=report.received), store) == SiloReport()


@pytest.mark.parametrize(
    "error, trouble",
    [
        (Unreachable("gone"), "Unreachable"),
        (ClockSkewed("an hour"), "ClockSkewed"),
        (Denied("no grant"), "Denied"),
        (LogReplaced("another"), "LogReplaced"),
        (Untrusted("a thief"), "Untrusted"),
        (HansaError("else"), "CourierFailed"),
    ],
)
def test_why_it_fails_is_in_its_report(error: HansaError, trouble: str) -> None:
    class Broken(MemoryStore):
        def get_range(self, key: str, start: int, length: int) -> bytes:
            raise error

    with pytest.raises(type(error)) as failure:
        run(courier_task(), Broken())
    report = failure.value.report  # type: ignore[attr-defined]
    assert report == SiloReport(trouble=trouble, message=error.message)


def test_a_key_that_is_not_the_silos_own_posts_nothing() -> None:
    store = MemoryStore()
    with pytest.raises(Untrusted, match="not among this party's publicKeys"):
        run(courier_task(HELLO), store, THIEF)
    assert store.objects == {}


def test_a_twins_letters_are_told_and_gone_behind() -> None:
    store = MemoryStore()
    first = run(courier_task(HELLO), store)
    about = Reference(serial=1, digest="a" * 64)
    assert first.sent and not first.ahead
    run(courier_task(PendingLetter(kind="taken", order=about), sent=first.sent), store)
    second = run(courier_task(HELLO), store)
    assert second.ahead and second.sent and second.sent.serial == 3
    reading = mail.box(ANSWERS, store).read(Cursor())
    kinds = [entry.letter.kind for entry in reading.entries]  # type: ignore[attr-defined]
    assert (kinds, dict(reading.faults)) == (["hello", "taken", "hello"], {})


def test_a_twin_that_says_the_same_is_the_silo_itself() -> None:
    store = MemoryStore()
    assert run(courier_task(HELLO), store) == run(courier_task(HELLO), store)


def test_an_order_that_was_taken_back_is_missed() -> None:
    store = MemoryStore()
    orders(store, mail.work(), Rest(why="missed", **mail.FIELDS))
    report = run(courier_task(), store)
    assert report.newest and (report.newest.kind, report.newest.why) == ("rest", "missed")
    orders(store, mail.rest())
    newest = run(courier_task(received=report.received), store).newest
    assert newest and newest.why == mail.rest().why


def test_a_thousand_pieces_of_garbage_among_orders_cost_one_courier_sixteen() -> None:
    store = MemoryStore()
    for serial in range(1, 1001):
        store.put_if_absent(bucket_keys.order("run", mail.ENVIRONMENT, serial), b"x")
    report = run(courier_task(), store)
    assert report.received and report.received.serial == 16
    assert dict(report.faults) == {"malformed": 16, "flooded": 1}


def test_orders_are_read_by_the_keys_of_the_moment() -> None:
    """The coordinator has rotated: the old key's letters still count while it is named."""
    store = MemoryStore()
    box: Mailbox = mail.box(ORDERS, store, trusted=(THIEF.public,))
    box.post(mail.work(), Cursor(), THIEF)
    assert dict(run(courier_task(), store).faults) == {"unknown-key": 1}
    both = spec().federation.model_copy(update={"public_keys": [THIEF.public, COORDINATOR.public]})
    task = courier_task().model_copy(
        update={"member": spec().model_copy(update={"federation": both})}
    )
    assert run(task, store).newest
