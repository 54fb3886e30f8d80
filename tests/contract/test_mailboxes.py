"""What a log of letters must do on every store: the real servers, and the one that tests use."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hansa.api import bucket_keys
from hansa.api.courier_assignment import CourierAssignment, SiloMail
from hansa.api.exchange import Cursor
from hansa.api.letters import ANSWERS, ORDERS, LetterLog, Reference
from hansa.api.spec import S3
from hansa.core.errors import ClockSkewed, Denied, NotFound, StoreError, Unreachable
from hansa.local.objectstore import LocalStore
from hansa.members.courier import carry
from hansa.members.mailbox import MOST_SKIPPED, Mailbox
from hansa.store import access_grants
from hansa.store.base import Credentials, ObjectStore
from hansa.store.s3 import Retry, S3Store
from tests.support import mail
from tests.support.faults import FaultyProxy, Kind
from tests.support.mail import COORDINATOR, SILO
from tests.support.memory_store import MemoryStore

ROOT = Path(__file__).parents[2]
MINIO = shutil.which("minio") or ROOT / ".cache/tools/bin/minio"
"""`tools/fetch minio` builds it."""


def wait_for(store: S3Store) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            return store.ensure_bucket()
        except (Unreachable, Denied):
            if time.monotonic() > deadline:
                raise
        time.sleep(0.1)


@pytest.fixture(scope="module")
def minio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Store]:
    """A MinIO of its own, where one was built."""
    if not Path(MINIO).exists():
        pytest.skip("no MinIO was built here: `tools/fetch minio`")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    folder = tmp_path_factory.mktemp("minio")
    pair = Credentials(access_key="administrator", secret_key="administrator")
    env = {"MINIO_ROOT_USER": pair.access_key, "MINIO_ROOT_PASSWORD": pair.secret_key}
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [MINIO, "server", "--quiet", "--address", address, "data"],
            cwd=folder,
            env={"PATH": os.defpath, "HOME": str(folder), **env},
            stdout=log,
            stderr=log,
        )
    place = S3(endpoint=f"http://{address}", bucket="hansa")
    store = S3Store(place, credentials=pair, retry=Retry(patience_seconds=5.0))
    try:
        wait_for(store)
        yield store
    finally:
        store.close()
        server.kill()
        server.wait()


STORES: dict[str, Callable[[pytest.FixtureRequest], ObjectStore]] = {
    "in memory": lambda request: MemoryStore(),
    "SeaweedFS": lambda request: request.getfixturevalue("store"),
    "SeaweedFS behind a proxy": lambda request: request.getfixturevalue("through")(
        patience_seconds=30.0
    ),
    "MinIO": lambda request: request.getfixturevalue("minio"),
}


@pytest.fixture(params=STORES)
def boxes(request: pytest.FixtureRequest, fresh_prefix: str) -> Callable[[LetterLog], Mailbox]:
    """Makes the logs of one federation that has just begun."""
    store = STORES[request.param](request)
    return lambda log: mail.box(log, store, prefix=fresh_prefix)


def test_letters_come_in_the_order_in_which_they_were_posted(
    boxes: Callable[[LetterLog], Mailbox],
) -> None:
    box, cursor = boxes(ANSWERS), Cursor()
    assert box.read(cursor).entries == []
    wanted = [mail.hello(), mail.taken(), mail.answer()]
    for number, letter in enumerate(wanted, start=1):
        posted = box.post(letter, cursor, SILO)
        assert (posted.done, posted.ahead, posted.faults) == (True, False, {})
        cursor = posted.cursor
        assert cursor.serial == number
    reading = box.read(Cursor())
    assert [entry.letter.kind for entry in reading.entries] == ["hello", "taken", "answer"]
    assert (reading.cursor, reading.faults, reading.more) == (cursor, {}, False)
    assert box.read(cursor).entries == []


def test_a_letter_that_is_posted_again_is_the_same_object(
    boxes: Callable[[LetterLog], Mailbox],
) -> None:
    box = boxes(ORDERS)
    first = box.post(mail.work(), Cursor(), COORDINATOR)
    assert box.post(mail.work(), Cursor(), COORDINATOR) == first
    assert box.look(2) is None


def test_another_letter_of_ours_means_that_we_are_behind(
    boxes: Callable[[LetterLog], Mailbox],
) -> None:
    box = boxes(ORDERS)
    cursor = Cursor()
    for round_ in (1, 2, 3):
        cursor = box.post(mail.work(round=round_), cursor, COORDINATOR).cursor
    restored = box.post(mail.rest(), Cursor(), COORDINATOR)
    assert (restored.done, restored.ahead, restored.cursor.serial) == (True, True, 4)
    assert box.read(cursor).faults == {}, "the chain continues behind the newest letter"


def test_garbage_at_a_place_is_left_behind(boxes: Callable[[LetterLog], Mailbox]) -> None:
    box = boxes(ANSWERS)
    for serial, data in enumerate((b"", b"x" * 100_000, b"{}"), start=1):
        box.store.put_if_absent(bucket_keys.answer(box.prefix, box.environment, serial), data)
    posted = box.post(mail.hello(), Cursor(), SILO)
    assert posted.cursor.serial == 4
    assert posted.faults == {"malformed": 2, "size": 1}
    reading = box.read(Cursor())
    assert [entry.serial for entry in reading.entries] == [4]
    assert reading.faults == posted.faults


# What a broken network leaves of a post: half a request, no answer, nothing.

FAULTS: tuple[Kind, ...] = ("reset", "cut-request", "lose-answer", "503")


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_while_posting_leaves_one_letter(
    through: Callable[..., S3Store], proxy: FaultyProxy, fresh_prefix: str, kind: Kind
) -> None:
    box = mail.box(ORDERS, through(patience_seconds=30.0), prefix=fresh_prefix)
    proxy.fail(kind, times=2, methods=("PUT",))
    posted = box.post(mail.work(), Cursor(), COORDINATOR)
    assert (posted.done, posted.ahead, posted.cursor.serial) == (True, False, 1)
    assert [entry.digest for entry in box.read(Cursor()).entries] == [posted.cursor.digest]
    assert len(proxy.failed) == 2


@pytest.mark.parametrize("kind", FAULTS)
def test_who_died_while_posting_posts_the_same_bytes_again(
    through: Callable[..., S3Store],
    proxy: FaultyProxy,
    store: S3Store,
    fresh_prefix: str,
    kind: Kind,
) -> None:
    proxy.fail(kind, methods=("PUT",))
    impatient = mail.box(ORDERS, through(patience_seconds=0.0), prefix=fresh_prefix)
    with pytest.raises(Unreachable):
        impatient.post(mail.work(), Cursor(), COORDINATOR)
    key = bucket_keys.order(fresh_prefix, impatient.environment, 1)
    try:
        before = store.get(key)
    except NotFound:
        before = b""
    assert bool(before) is (kind == "lose-answer")
    proxy.heal()
    again = mail.box(ORDERS, through(patience_seconds=30.0), prefix=fresh_prefix)
    posted = again.post(mail.work(), Cursor(), COORDINATOR)
    assert (posted.done, posted.ahead, posted.cursor.serial) == (True, False, 1)
    assert store.get(key) == (before or store.get(key))
    assert again.look(2) is None


@pytest.mark.parametrize("kind", ["reset", "cut-response", "cut-head", "corrupt-response"])
def test_a_fault_while_reading_loses_no_letter(
    through: Callable[..., S3Store], proxy: FaultyProxy, fresh_prefix: str, kind: Kind
) -> None:
    """Not even a flipped bit: it would be taken for garbage, and skipped for good."""
    box = mail.box(ANSWERS, through(patience_seconds=30.0), prefix=fresh_prefix)
    posted = box.post(mail.hello(), Cursor(), SILO)
    proxy.fail(kind, times=1, methods=("GET",))
    reading = box.read(Cursor())
    assert (reading.cursor, reading.faults) == (posted.cursor, {})
    assert len(reading.entries) == len(proxy.failed) == 1


def test_nobody_lists_the_bucket(
    through: Callable[..., S3Store], proxy: FaultyProxy, fresh_prefix: str
) -> None:
    box = mail.box(ORDERS, through(), prefix=fresh_prefix)
    cursor = box.post(mail.work(), Cursor(), COORDINATOR).cursor
    box.post(mail.work(), Cursor(), COORDINATOR)
    box.read(cursor)
    assert proxy.count("GET", "list-type") == 0
    before = proxy.count()
    box.read(cursor)
    assert proxy.count() == before + 1, "an empty poll is one request"


def test_an_end_that_the_store_calls_forbidden_is_an_end(
    through: Callable[..., S3Store], proxy: FaultyProxy, fresh_prefix: str
) -> None:
    """Amazon does so for policies that list by prefix alone; there an empty poll lists one key."""
    box = mail.box(ORDERS, through(), prefix=fresh_prefix)
    cursor = box.post(mail.work(), Cursor(), COORDINATOR).cursor
    proxy.fail("403", methods=("GET",), contains="maze/000002.json")
    before = proxy.count()
    assert box.read(cursor).cursor == cursor
    assert proxy.count() == before + 2


def test_a_store_that_is_down_is_no_empty_log(
    through: Callable[..., S3Store], proxy: FaultyProxy, fresh_prefix: str
) -> None:
    box = mail.box(ORDERS, through(patience_seconds=0.1), prefix=fresh_prefix)
    proxy.down()
    with pytest.raises(Unreachable):
        box.read(Cursor())
    with pytest.raises(Unreachable):
        box.post(mail.work(), Cursor(), COORDINATOR)


@pytest.mark.parametrize("name", ["SeaweedFS", "MinIO"])
def test_what_is_signed_within_15_minutes_is_taken_and_beyond_the_clock_is_named(
    name: str,
    request: pytest.FixtureRequest,
    fresh_prefix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    box = mail.box(ANSWERS, STORES[name](request), prefix=fresh_prefix)
    box.post(mail.hello(), Cursor(), SILO)

    def is_read_with(minutes: int) -> bool:
        moment = datetime.now(UTC) + timedelta(minutes=minutes)
        monkeypatch.setattr(
            "botocore.auth.get_current_datetime",
            lambda remove_tzinfo=True: moment.replace(tzinfo=None) if remove_tzinfo else moment,
        )
        return bool(box.read(Cursor()).entries)

    assert is_read_with(-14) and is_read_with(14)
    for minutes in (-60, 60):
        with pytest.raises(ClockSkewed, match="clocks of this machine and the store differ"):
            is_read_with(minutes)


@pytest.mark.slow
def test_a_flood_in_one_silos_log_costs_a_courier_sixteen_looks_and_the_others_nothing(
    store: S3Store, through: Callable[..., S3Store], proxy: FaultyProxy, fresh_prefix: str
) -> None:
    for serial in range(1, 1001):
        store.put_if_absent(bucket_keys.answer(fresh_prefix, "maze", serial), b"garbage")
    hello = mail.hello().model_copy(update={"environment": "wordle"})
    mail.box(ANSWERS, store, prefix=fresh_prefix, environment="wordle").post(hello, Cursor(), SILO)
    boxes = [SiloMail(environment=name, public_keys=[SILO.public]) for name in ("maze", "wordle")]
    task = CourierAssignment(
        federation="fed",
        run=mail.RUN,
        storage=S3(bucket="bucket", prefix=fresh_prefix),
        public_keys=[COORDINATOR.public],
        poll_seconds=2,
        boxes=boxes,
    )
    report = carry(task, through(patience_seconds=30.0), COORDINATOR, sleep=lambda seconds: None)
    assert [(m.box, m.serial) for m in report.read] == [(0, MOST_SKIPPED), (1, 1)]
    assert [(n.box, n.kind) for n in report.news] == [(1, "hello")]
    assert {f.code: f.count for f in report.faults} == {"malformed": MOST_SKIPPED, "flooded": 1}
    looks = 2 * 2 * MOST_SKIPPED  # each twice, and all again after the pause for others
    assert proxy.count("GET", "answers/maze/") == looks


# Who may do what: the grants of silos in clusters of their own, installed on the server.


class Exchange(LocalStore):
    """A store between parties in clusters of their own."""

    def _granted(self, name: str) -> list[access_grants.Grant]:
        if name == access_grants.AGGREGATOR:
            return access_grants.aggregator_grants(self.s3, has_remote=True)
        return access_grants.remote_grants(self.s3, name)


@pytest.fixture(scope="module")
def exchange(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exchange]:
    with Exchange(tmp_path_factory.mktemp("exchange"), ("maze", "maze2"), prefix="fed") as store:
        yield store


def seen_by(
    exchange: Exchange, identity: str, log: LetterLog, environment: str = "maze"
) -> Mailbox:
    return mail.box(log, exchange.store(identity), prefix="fed", environment=environment)


@pytest.mark.slow
def test_each_party_writes_its_own_log_and_reads_the_others(exchange: Exchange) -> None:
    orders = seen_by(exchange, access_grants.AGGREGATOR, ORDERS)
    posted = orders.post(mail.work(), Cursor(), COORDINATOR)
    [order] = seen_by(exchange, "maze", ORDERS).read(Cursor()).entries
    assert order.digest == posted.cursor.digest
    reply = mail.taken(Reference(serial=order.serial, digest=order.digest))
    seen_by(exchange, "maze", ANSWERS).post(reply, Cursor(), SILO)
    reading = seen_by(exchange, access_grants.AGGREGATOR, ANSWERS).read(
        Cursor(), posted=posted.cursor
    )
    assert [entry.letter for entry in reading.entries] == [reply.place_at(1, "")]


@pytest.mark.slow
def test_an_empty_poll_by_a_silos_own_credentials_is_one_request(exchange: Exchange) -> None:
    with FaultyProxy(exchange.s3.endpoint or "") as proxy:
        place = exchange.s3.model_copy(update={"endpoint": proxy.endpoint})
        store = S3Store(place, credentials=exchange.credentials["maze2"])
        assert mail.box(ORDERS, store, prefix="fed", environment="maze2").look(1) is None
        assert proxy.count() == 1
        store.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "identity, log, environment, verbs",
    [
        pytest.param("maze", ORDERS, "maze", {"write"}, id="a silo writes no orders"),
        pytest.param("aggregator", ANSWERS, "maze", {"write"}, id="the coordinator no answers"),
        pytest.param("maze2", ORDERS, "maze", {"read", "write"}, id="another's orders"),
        pytest.param("maze2", ANSWERS, "maze", {"read", "write"}, id="another's answers"),
        pytest.param("maze", ANSWERS, "maze2", {"read", "write"}, id="answers of a longer name"),
    ],
)
def test_nobody_reaches_into_anothers_letters(
    exchange: Exchange, identity: str, log: LetterLog, environment: str, verbs: set[str]
) -> None:
    box = seen_by(exchange, identity, log, environment)
    key = log.key("fed", environment, 900)
    tries: dict[str, Callable[[], Any]] = {
        "read": lambda: box.store.get_range(key, 0, 10),
        "write": lambda: box.store.put_if_absent(key, b"mine"),
    }
    for verb, attempt in tries.items():
        with pytest.raises(Denied if verb in verbs else StoreError) as caught:
            attempt()
        assert isinstance(caught.value, Denied if verb in verbs else NotFound)
