"""A store that is down, slow, overloaded or cut off: verbs try again, then fail by name."""

import errno
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from hansa.api.bucket_documents import sha256
from hansa.api.spec import S3
from hansa.core.errors import Denied, NotFound, Precondition, StoreError, Unreachable
from hansa.core.exits import Exit
from hansa.local.objectstore import LocalStore
from hansa.store.base import Credentials
from hansa.store.s3 import ENV_PATIENCE, Retry, S3Store
from tests.support.faults import FaultyProxy, Kind

Through = Callable[..., S3Store]
PASSING: list[Kind] = ["reset", "503", "500", "cut-request", "cut-response", "lose-answer"]
DATA = bytes(range(256)) * 400


@pytest.fixture
def key(fresh_prefix: str) -> str:
    return f"{fresh_prefix}/key"


@pytest.mark.parametrize("kind", PASSING)
def test_writes_outlive_a_short_failure(
    proxy: FaultyProxy, through: Through, store: S3Store, key: str, kind: Kind, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(DATA)
    writer = through(patience_seconds=20)
    for at, write in (
        (key, lambda: writer.put_if_absent(key, DATA)),
        (f"{key}-2", lambda: writer.upload_if_absent(f"{key}-2", tmp_path / "file")),
    ):
        proxy.fail(kind, times=2, methods=("PUT",))
        before = proxy.count("PUT")
        write()
        assert store.get(at) == DATA
        assert proxy.count("PUT") >= before + 2
        proxy.heal()


@pytest.mark.parametrize("kind", [*PASSING, "cut-head"])
def test_reads_outlive_a_short_failure(
    proxy: FaultyProxy,
    through: Through,
    store: S3Store,
    fresh_prefix: str,
    key: str,
    kind: Kind,
    tmp_path: Path,
) -> None:
    store.put_if_absent(key, DATA)
    reader = through(patience_seconds=20)
    verbs: list[tuple[Callable[[], object], object]] = [
        (lambda: reader.get(key), DATA),
        (lambda: reader.get_range(key, 100, 50_000), DATA[100:50_100]),
        (lambda: reader.size(key), len(DATA)),
        (lambda: reader.download(key, tmp_path / "copy", len(DATA)), sha256(DATA)),
        (lambda: list(reader.list(f"{fresh_prefix}/")), [key]),
    ]
    for verb, expected in verbs:
        proxy.fail(kind, times=2)
        assert verb() == expected
        proxy.heal()


def test_who_watches_a_download_that_breaks_off_sees_it_from_its_first_byte_again(
    proxy: FaultyProxy, through: Through, store: S3Store, key: str, tmp_path: Path
) -> None:
    key, data = key, DATA * 40  # several pieces, some of them before the cut
    store.put_if_absent(key, data)
    seen: list[tuple[int, bytes]] = []
    proxy.fail("cut-response", times=1, methods=("GET",))
    reader = through(patience_seconds=20)
    got = reader.download(key, tmp_path / "copy", len(data), lambda *piece: seen.append(piece))
    starts = [index for index, (begin, _) in enumerate(seen) if begin == 0]
    assert len(starts) == 2
    assert b"".join(piece for _, piece in seen[starts[-1] :]) == data
    assert got == sha256(data) == sha256((tmp_path / "copy").read_bytes())


@pytest.mark.parametrize("kind", ["reset", "hang", "503", "500", "cut-request"])
def test_a_lasting_failure_is_unreachable_and_leaves_nothing_half_written(
    proxy: FaultyProxy, through: Through, store: S3Store, fresh_prefix: str, kind: Kind
) -> None:
    key = f"{fresh_prefix}/key"
    proxy.fail(kind)
    mine = through(patience_seconds=0.2)
    verbs: list[Callable[[], object]] = [
        lambda: mine.put_if_absent(key, DATA),
        lambda: mine.get(key),
        lambda: mine.size(key),
        lambda: mine.list(fresh_prefix),
        mine.check,
    ]
    for verb in verbs:
        with pytest.raises(Unreachable) as caught:
            verb()
        assert caught.value.exit is Exit.STORAGE_UNREACHABLE
        assert proxy.endpoint in caught.value.message
    with pytest.raises(NotFound):
        store.get(key)
    proxy.heal()
    through(patience_seconds=20).put_if_absent(key, DATA)
    assert store.get(key) == DATA


def test_a_store_that_is_down_is_unreachable_and_found_again(
    proxy: FaultyProxy, through: Through, fresh_prefix: str
) -> None:
    mine, hasty = through(patience_seconds=20), through(patience_seconds=0.3)
    mine.put_if_absent(f"{fresh_prefix}/before", b"1")
    proxy.down()
    with pytest.raises(Unreachable, match="Could not connect"):
        hasty.put_if_absent(f"{fresh_prefix}/while", b"2")
    proxy.up()
    mine.put_if_absent(f"{fresh_prefix}/while", b"2")
    assert mine.get(f"{fresh_prefix}/before") == b"1"


def test_a_verb_goes_on_when_the_store_comes_back_within_its_patience(
    proxy: FaultyProxy, through: Through, key: str
) -> None:
    mine = through(patience_seconds=60, longest_pause_seconds=0.2)
    proxy.down()
    back = threading.Timer(0.7, proxy.up)
    back.start()
    mine.put_if_absent(key, b"1")
    back.join()
    assert mine.get(key) == b"1"


@pytest.mark.slow
def test_a_slow_store_is_waited_for(proxy: FaultyProxy, through: Through, key: str) -> None:
    proxy.fail("slow", seconds=5, times=1)
    through(patience_seconds=60).put_if_absent(key, b"late")
    assert proxy.count("PUT") == 1, "five seconds are within the time for one answer"


def test_silence_beyond_the_limit_is_tried_again(
    proxy: FaultyProxy, through: Through, key: str
) -> None:
    proxy.fail("hang", times=1)
    through(patience_seconds=60, read_seconds=3).put_if_absent(key, b"1")
    assert proxy.count("PUT") == 2


def test_a_refusal_is_denied_without_another_try(
    proxy: FaultyProxy, through: Through, key: str
) -> None:
    proxy.fail("403")
    with pytest.raises(Denied, match="may not write") as caught:
        through(patience_seconds=30).put_if_absent(key, b"1")
    assert caught.value.exit is Exit.PERMANENT
    assert proxy.count("PUT") == 1


@pytest.mark.parametrize("verb", ["get", "size"])
def test_a_refused_read_of_a_missing_object_is_not_found_when_listing_says_so(
    proxy: FaultyProxy, through: Through, store: S3Store, fresh_prefix: str, verb: str
) -> None:
    """Amazon answers 403 for a missing object when the policy lists by prefix only."""
    store.put_if_absent(f"{fresh_prefix}/there", b"1")
    proxy.fail("403", contains=f"{fresh_prefix}/")
    mine = through()
    with pytest.raises(NotFound):
        getattr(mine, verb)(f"{fresh_prefix}/missing")
    with pytest.raises(Denied):
        getattr(mine, verb)(f"{fresh_prefix}/there")


@pytest.mark.parametrize("verb", ["get", "size"])
def test_an_object_that_a_twin_writes_while_it_is_looked_for_is_read(
    proxy: FaultyProxy, through: Through, store: S3Store, key: str, verb: str
) -> None:
    written = partial(store.put_if_absent, key, b"1")
    proxy.fail("403", times=1, contains=key, then=written)
    assert getattr(through(patience_seconds=20), verb)(key) in (b"1", 1)


def test_a_full_disk_of_this_machine_is_not_the_stores_fault(
    store: S3Store, key: str, mount: Callable[..., Path]
) -> None:
    store.put_if_absent(key, bytes(10**6))
    disk = mount("size=64k")
    with pytest.raises(OSError) as caught:
        store.download(key, disk / "copy", 10**6)
    assert caught.value.errno == errno.ENOSPC


def test_a_write_whose_answer_was_lost_is_known_as_ones_own(
    proxy: FaultyProxy, through: Through, store: S3Store, key: str
) -> None:
    proxy.fail("lose-answer", times=1, methods=("PUT",))
    through(patience_seconds=20).put_if_absent(key, DATA)
    assert store.get(key) == DATA
    assert proxy.count("PUT") == 2


def test_a_lost_try_does_not_claim_another_writers_object(
    proxy: FaultyProxy, through: Through, store: S3Store, key: str
) -> None:
    store.put_if_absent(key, b"another writer")
    proxy.fail("lose-answer", times=1, methods=("PUT",))
    with pytest.raises(Precondition):
        through(patience_seconds=20).put_if_absent(key, DATA)
    assert store.get(key) == b"another writer"


def test_another_writers_object_of_another_size_is_not_read_after_a_lost_try(
    proxy: FaultyProxy, through: Through, store: S3Store, key: str, tmp_path: Path
) -> None:
    """It could be of any size, and would be read into memory."""
    store.put_if_absent(key, DATA)
    (tmp_path / "file").write_bytes(b"ours")
    slow = through(patience_seconds=20)
    for write in (
        lambda: slow.put_if_absent(key, b"ours"),
        lambda: slow.upload_if_absent(key, tmp_path / "file"),
    ):
        proxy.fail("reset", times=1, methods=("PUT",))
        with pytest.raises(Precondition):
            write()
    assert proxy.count("GET") == 0


def test_a_body_that_always_breaks_off_is_unreachable_not_short(
    proxy: FaultyProxy, through: Through, store: S3Store, key: str
) -> None:
    store.put_if_absent(key, DATA)
    proxy.fail("cut-response", methods=("GET",))
    with pytest.raises(Unreachable):
        through(patience_seconds=0.5).get(key)
    with pytest.raises(Unreachable):
        through(patience_seconds=0.5).get_range(key, 0, 1000)


def test_a_body_that_changed_on_the_way_is_read_again(
    proxy: FaultyProxy, through: Through, store: S3Store, key: str
) -> None:
    store.put_if_absent(key, DATA)
    proxy.fail("corrupt-response", times=1, methods=("GET",))
    assert through(patience_seconds=20).get(key) == DATA
    assert proxy.count("GET") == 2


def test_every_failure_of_every_verb_is_a_store_error(
    proxy: FaultyProxy, through: Through, fresh_prefix: str
) -> None:
    mine = through(patience_seconds=0.1)
    kinds: list[Kind] = [*PASSING, "403", "hang", "cut-head"]
    for kind in kinds:
        proxy.fail(kind)
        for verb in (mine.get, mine.size, mine.list):
            with pytest.raises(StoreError):
                verb(f"{fresh_prefix}/{kind}")
        proxy.heal()


def test_an_address_that_does_not_exist_is_unreachable() -> None:
    s3 = S3(endpoint="http://no-such-host.invalid:9000", bucket="hansa")
    store = S3Store(
        s3,
        credentials=Credentials(access_key="a", secret_key="b"),
        retry=Retry(patience_seconds=0.1),
        path="environments[0].experienceStorage.s3",
    )
    with pytest.raises(Unreachable, match=r"environments\[0\].experienceStorage.s3.endpoint: "):
        store.check()


def test_patience_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENV_PATIENCE, "2.5")
    assert Retry().patience_seconds == 2.5
    for wrong in ("soon", "-1", "nan", "inf"):
        monkeypatch.setenv(ENV_PATIENCE, wrong)
        with pytest.raises(Exception, match=rf"{ENV_PATIENCE}: got '{wrong}'"):
            Retry()


def test_pauses_double_up_to_a_bound_and_are_spread_by_chance() -> None:
    rules = Retry(patience_seconds=1, first_pause_seconds=0.5, longest_pause_seconds=3)
    assert [rules.pause_seconds(tries, 1.0) for tries in (1, 2, 3, 4, 400)] == [0.5, 1, 2, 3, 3]
    assert rules.pause_seconds(4, 0.0) == 0


@pytest.mark.slow
def test_a_writer_does_not_notice_that_the_server_was_killed_and_came_back(
    weed: LocalStore, fresh_prefix: str
) -> None:
    mine = weed.store(retry=Retry(patience_seconds=60, longest_pause_seconds=0.5))
    keys = [f"{fresh_prefix}/{n:03d}" for n in range(60)]
    failures: list[Exception] = []

    def write() -> None:
        try:
            for key in keys:
                mine.put_if_absent(key, key.encode() * 1000)
                time.sleep(0.02)
        except Exception as error:
            failures.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    time.sleep(0.4)
    process = weed._process
    assert process is not None
    process.kill()
    process.wait()
    assert weed.ensure()
    writer.join(timeout=120)
    assert not failures
    assert [mine.get(key) for key in keys] == [key.encode() * 1000 for key in keys]
