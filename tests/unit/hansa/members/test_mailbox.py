"""Mailboxes: what a reader makes of any log, and a writer of any place that is taken."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hansa.api import bucket_keys
from hansa.api.exchange import Cursor
from hansa.api.letters import ANSWERS, ORDERS, Letter, Reference
from hansa.core.errors import Corrupt, Precondition, Unreachable, Untrusted
from hansa.members.mailbox import MOST_SKIPPED, LogEntry, Mailbox, NoEntry, Posted, Reading
from tests.support import mail
from tests.support.mail import COORDINATOR, SILO, THIEF, box, sealed
from tests.support.memory_store import MemoryStore


def put(mailbox: Mailbox, serial: int, data: bytes) -> None:
    key = mailbox.log.key(mailbox.prefix, mailbox.environment, serial)
    mailbox.store.put_if_absent(key, data)


def post(mailbox: Mailbox, letter: Letter, cursor: Cursor | None = None) -> Posted:
    key = mail.WRITERS[mailbox.log.payload_type]
    return mailbox.post(letter, cursor or Cursor(), key)


def kinds(reading: Reading) -> list[str]:
    return [entry.letter.to_json()["kind"] for entry in reading.entries]


def test_an_empty_log_is_one_request_and_no_news() -> None:
    store = MemoryStore()
    reading = box(ORDERS, store).read(Cursor(serial=6, digest="a" * 64))
    assert (reading.entries, reading.faults, reading.more) == ([], {}, False)
    assert reading.cursor == Cursor(serial=6, digest="a" * 64)
    assert store.ranges == [(bucket_keys.order("run", "maze", 7), 0, ORDERS.limit + 1)]


def test_a_reading_ends_after_its_most_and_the_next_goes_on() -> None:
    orders, cursor = box(ORDERS), Cursor()
    for round_ in range(1, 6):
        cursor = post(orders, mail.work(round=round_), cursor).cursor
    first = orders.read(Cursor(), most=3)
    assert ([e.serial for e in first.entries], first.more) == ([1, 2, 3], True)
    second = orders.read(first.cursor, most=3)
    assert ([e.serial for e in second.entries], second.more) == ([4, 5], False)
    assert second.cursor == cursor


def moved(letter: Letter, **fields: Any) -> Letter:
    return letter.model_copy(update=fields)


FIRST_ORDER = mail.work().place_at(1, "")
HOSTILE = {
    "an old order at a new place": (sealed(ORDERS, FIRST_ORDER), "serial"),
    "another silo's order": (
        sealed(ORDERS, moved(mail.rest(), environment="wordle").place_at(2, "")),
        "environment",
    ),
    "another run's order": (
        sealed(ORDERS, moved(mail.rest(), run="8" * 64).place_at(2, "")),
        "run",
    ),
    "a thief's order": (sealed(ORDERS, mail.rest().place_at(2, ""), THIEF), "unknown-key"),
    "an answer": (sealed(ANSWERS, mail.hello().place_at(2, "")), "payload-type"),
    "garbage": (b"garbage", "malformed"),
    "nothing": (b"", "malformed"),
    "a flood of bytes": (b"x" * 200_000, "size"),
}


@pytest.mark.attack(
    by="a writer of the bucket",
    does="puts an old order, another silo's, another run's or garbage at the next place of a log",
    result="skipped and counted",
)
@pytest.mark.parametrize("data, code", HOSTILE.values(), ids=HOSTILE)
def test_what_is_put_at_the_next_place_is_skipped_and_counted(data: bytes, code: str) -> None:
    orders = box(ORDERS)
    cursor = post(orders, mail.work()).cursor
    put(orders, 2, data)
    assert orders.look(2) == NoEntry(serial=2, fault=code)  # type: ignore[arg-type]
    reading = orders.read(cursor)
    assert (reading.entries, reading.faults) == ([], {code: 1})
    assert reading.cursor == Cursor(serial=2, digest=cursor.digest)
    after = post(orders, mail.rest(), cursor)
    assert (after.done, after.ahead, after.cursor.serial) == (True, False, 3)
    assert after.faults == {code: 1}
    news = orders.read(reading.cursor)
    assert (kinds(news), news.faults) == (["rest"], {}), "the chain knows letters alone"


@pytest.mark.attack(
    by="a writer of the bucket",
    does="floods a log with garbage",
    result="each reading looks at 16 objects; the others' rounds continue",
)
def test_a_thousand_pieces_of_garbage_cost_each_reading_sixteen() -> None:
    store = MemoryStore()
    answers = box(ANSWERS, store)
    for serial in range(1, 1001):
        put(answers, serial, b"garbage")
    put(answers, 1001, sealed(ANSWERS, mail.hello().place_at(1001, "")))
    cursor, readings = Cursor(), 0
    while True:
        asked = len(store.ranges)
        reading = answers.read(cursor)
        readings += 1
        assert len(store.ranges) - asked <= 2 * MOST_SKIPPED + 2
        if reading.entries:
            break
        assert reading.faults == {"malformed": MOST_SKIPPED, "flooded": 1}
        assert reading.more
        cursor = reading.cursor
    assert readings == 1000 // MOST_SKIPPED + 1
    assert reading.cursor.serial == 1001


def test_a_writer_goes_on_behind_a_flood_in_its_next_run() -> None:
    answers = box(ANSWERS)
    for serial in range(1, 21):
        put(answers, serial, b"garbage")
    first = post(answers, mail.hello())
    assert (first.done, first.cursor) == (False, Cursor(serial=16))
    assert first.faults == {"malformed": 16, "flooded": 1}
    second = post(answers, mail.hello(), first.cursor)
    assert (second.done, second.ahead, second.cursor.serial) == (True, False, 21)


def test_a_break_in_the_chain_is_told_and_the_letter_counts() -> None:
    orders = box(ORDERS)
    post(orders, mail.work())
    put(orders, 2, sealed(ORDERS, mail.rest().place_at(2, "f" * 64)))
    reading = orders.read(Cursor())
    assert (kinds(reading), reading.faults) == (["work", "rest"], {"chain": 1})


def test_an_answer_to_another_order_under_that_number_is_skipped() -> None:
    orders, answers = box(ORDERS), box(ANSWERS)
    posted = post(orders, mail.work()).cursor
    put(
        answers,
        1,
        sealed(ANSWERS, mail.taken(Reference(serial=1, digest="f" * 64)).place_at(1, "")),
    )
    right = mail.taken(Reference(serial=posted.serial, digest=posted.digest or ""))
    put(answers, 2, sealed(ANSWERS, right.place_at(2, "")))
    reading = answers.read(Cursor(), posted=posted)
    assert reading.faults == {"order": 1}
    assert [entry.letter for entry in reading.entries] == [right.place_at(2, "")]


def test_an_answer_to_an_earlier_order_is_a_letter_like_any() -> None:
    answers = box(ANSWERS)
    post(answers, mail.taken())
    reading = answers.read(Cursor(), posted=Cursor(serial=5, digest="b" * 64))
    assert (kinds(reading), reading.faults) == (["taken"], {})


@pytest.mark.attack(
    by="a writer of the bucket",
    does="has S3 keys, and signs with a key of its own",
    result="skipped: the key is unknown",
)
def test_a_key_that_nobody_was_told_of_signs_nothing() -> None:
    orders = box(ORDERS)
    with pytest.raises(Untrusted, match=r"signing key: got that of ed25519:.*, which is not among"):
        orders.post(mail.work(), Cursor(), THIEF)
    assert isinstance(orders.store, MemoryStore)
    assert orders.store.objects == {}


@pytest.mark.attack(
    by="a writer of the bucket",
    does="has a signing key that was removed from the others' manifests",
    result="refused",
)
def test_a_key_that_takes_over_and_one_that_was_revoked() -> None:
    store = MemoryStore()
    both = box(ANSWERS, store, trusted=(THIEF.public, SILO.public))
    cursor = both.post(mail.hello(), Cursor(), SILO).cursor
    both.post(mail.taken(), cursor, THIEF)
    assert kinds(both.read(Cursor())) == ["hello", "taken"]
    left = box(ANSWERS, store, trusted=(THIEF.public,)).read(Cursor())
    assert (kinds(left), left.faults) == (["taken"], {"unknown-key": 1, "chain": 1})


def test_a_twin_that_was_faster_has_posted_our_letter() -> None:
    store = MemoryStore()
    orders = box(ORDERS, store)
    theirs = sealed(ORDERS, mail.work().place_at(1, ""))
    store.before_put = lambda key: store.objects.setdefault(key, theirs) and None
    posted = post(orders, mail.work())
    assert (posted.done, posted.ahead, posted.cursor.serial) == (True, False, 1)
    assert list(store.objects.values()) == [theirs]


def test_a_twin_with_another_mind_is_gone_behind() -> None:
    store = MemoryStore()
    orders = box(ORDERS, store)
    put(orders, 1, sealed(ORDERS, mail.rest().place_at(1, "")))
    posted = post(orders, mail.work())
    assert (posted.done, posted.ahead, posted.cursor.serial) == (True, True, 2)
    assert orders.read(Cursor()).faults == {}


def test_an_equal_letter_that_is_not_the_last_one_does_not_count() -> None:
    """A silo works on the newest order: `rest` of last week is no rest."""
    orders, cursor = box(ORDERS), Cursor()
    for letter in (mail.rest(), mail.work(round=2)):
        cursor = post(orders, letter, cursor).cursor
    restored = post(orders, mail.rest())
    assert (restored.done, restored.ahead, restored.cursor.serial) == (True, True, 3)


def test_a_last_letter_that_says_the_same_is_found_again_after_a_restore() -> None:
    orders, cursor = box(ORDERS), Cursor()
    for round_ in range(1, 101):
        cursor = post(orders, mail.work(round=round_), cursor).cursor
    restored = post(orders, mail.work(round=100))
    assert restored == Posted(cursor=cursor, done=True, ahead=True, faults=restored.faults)
    assert orders.look(101) is None


def test_a_store_that_contradicts_itself_is_told() -> None:
    store = MemoryStore()

    def refuse(key: str) -> None:
        raise Precondition(f"{key} exists already")

    store.before_put = refuse
    with pytest.raises(Corrupt, match="the store says that it exists, and has no such object"):
        post(box(ORDERS, store), mail.work())


def test_a_letter_that_lost_a_bit_on_its_way_is_read_again() -> None:
    class Noisy(MemoryStore):
        """Its first answer has one flipped bit."""

        def get_range(self, key: str, start: int, length: int) -> bytes:
            data = super().get_range(key, start, length)
            return bytes([data[0] ^ 1]) + data[1:] if len(self.ranges) == 1 else data

    store = Noisy()
    answers = box(ANSWERS, store)
    post(answers, mail.hello())
    assert isinstance(answers.look(1), LogEntry)
    assert len(store.ranges) == 2


# Any history of a writer that dies, is restored from a backup or has a twin, beside a thief.

LETTERS = [mail.hello(), mail.taken(), mail.answer()]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["post", "die before", "die after", "restore", "garbage", "replay"]),
        st.integers(0, 2),
    ),
    max_size=30,
)


class Killed(Exception):
    pass


@settings(max_examples=120)
@given(steps=STEPS)
def test_whatever_happens_to_a_writer_its_log_is_sound(steps: list[tuple[str, int]]) -> None:
    store = MemoryStore()
    answers = box(ANSWERS, store)
    cursors = [Cursor()]  # what a status knew, oldest first
    read_so_far, received = Cursor(), []
    for step, number in steps:
        letter = LETTERS[number]
        free = 1 + len(store.objects)
        if step == "garbage":
            put(answers, free, b"garbage" * (number + 1))
        elif step == "replay" and store.objects:
            put(answers, free, next(iter(store.objects.values())))
        elif step == "restore":
            cursors = cursors[: 1 + number]
        elif step == "die before":
            store.before_put = dies
            with pytest.raises(Killed):
                post(answers, letter, cursors[-1])
            store.before_put = lambda key: None
        elif step in ("post", "die after"):
            posted = post(answers, letter, cursors[-1])
            if step == "post":
                cursors.append(posted.cursor)
            if posted.done:
                last = answers.look(posted.cursor.serial)
                entry = last if isinstance(last, LogEntry) else newest(answers)
                assert entry.letter.has_same_content(letter)
        reading = answers.read(read_so_far)
        assert not reading.faults["chain"]
        received += reading.entries
        read_so_far = reading.cursor
        assert read_so_far.serial == len(store.objects) or reading.more
    while (reading := answers.read(read_so_far)).entries or reading.more:
        received += reading.entries
        read_so_far = reading.cursor
    assert [e.serial for e in received] == sorted({e.serial for e in received})
    assert received == everything(answers), "news come once each, whenever they are asked for"


def dies(key: str) -> None:
    raise Killed(key)


def everything(mailbox: Mailbox) -> list[LogEntry]:
    seen, serial = [], 1
    while entry := mailbox.look(serial):
        seen += [entry] if isinstance(entry, LogEntry) else []
        serial += 1
    return seen


def newest(mailbox: Mailbox) -> LogEntry:
    return everything(mailbox)[-1]


def test_a_store_that_does_not_answer_stops_a_reading_where_it_was() -> None:
    class Down(MemoryStore):
        """Does not answer."""

        def get_range(self, key: str, start: int, length: int) -> bytes:
            raise Unreachable("down")

    with pytest.raises(Unreachable):
        box(ORDERS, Down()).read(Cursor())
    assert COORDINATOR.public in box(ORDERS).trusted
