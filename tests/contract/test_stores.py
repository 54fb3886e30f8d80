"""What every object store must do: the real one, and each that tests put in its place."""

import ast
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hansa.api.bucket_documents import sha256
from hansa.api.spec import S3
from hansa.core.errors import Corrupt, Denied, NotFound, Precondition
from hansa.crypto import sealing
from hansa.local.objectstore import RUNNER, LocalStore
from hansa.store.base import Credentials, ObjectStore, put_once
from hansa.store.experience import ExperienceStore
from hansa.store.s3 import Retry, S3Store
from hansa.store.staged import StagedStore
from tests.support.memory_store import MemoryStore, Replaced
from tests.support.report_sample import MemoryStore as BrokenStore

STORES: dict[str, Callable[[pytest.FixtureRequest], ObjectStore]] = {
    "S3": lambda request: request.getfixturevalue("store"),
    "S3 behind a proxy": lambda request: request.getfixturevalue("through")(patience_seconds=30.0),
    "in memory": lambda request: MemoryStore(),
    "in memory, with errors to raise": lambda request: BrokenStore(),
    "with updates staged": lambda request: StagedStore(
        MemoryStore(), MemoryStore(), root="run/updates/maze/", private_root="mine/"
    ),
    "with one object replaced": lambda request: Replaced(MemoryStore(), "replaced", b"lie"),
    "sealed to a silo's own key": lambda request: all_sealed(),
}


def all_sealed() -> ObjectStore:
    """One that seals every object, and not a silo's experience alone."""
    store = ExperienceStore(MemoryStore(), "", "maze", [sealing.generate_opening_key()])
    store._root = ""
    return store


@pytest.fixture(params=STORES)
def any_store(request: pytest.FixtureRequest) -> ObjectStore:
    """Each store that a program of Hansa or of its tests uses; empty below a fresh prefix."""
    return STORES[request.param](request)


def test_no_test_has_a_store_that_is_not_held_to_this() -> None:
    written = {
        node.name
        for file in Path(__file__).parents[1].rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ClassDef)
        and (
            any(getattr(part, "name", "") == "put_if_absent" for part in node.body)
            or any(getattr(base, "id", "") == "ForwardingStore" for base in node.bases)
        )
    }
    assert written == {"MemoryStore", "Replaced"}


def test_what_is_removed_is_gone_and_may_be_removed_again(
    any_store: ObjectStore, fresh_prefix: str
) -> None:
    key, other = f"{fresh_prefix}/object", f"{fresh_prefix}/other"
    for each in (key, other):
        any_store.put_if_absent(each, b"0123456789")
    any_store.remove(key)
    any_store.remove(key)
    assert list(any_store.list(f"{fresh_prefix}/")) == [other]
    with pytest.raises(NotFound):
        any_store.get(key)


def test_what_was_put_is_read_back_whole_and_in_part(
    any_store: ObjectStore, fresh_prefix: str
) -> None:
    key = f"{fresh_prefix}/object"
    any_store.put_if_absent(key, b"0123456789")
    assert any_store.get(key) == b"0123456789"
    assert any_store.size(key) == 10
    assert any_store.get_range(key, 2, 3) == b"234"
    assert any_store.get_range(key, 8, 100) == b"89"
    assert any_store.get_range(key, 10, 5) == b""
    assert any_store.get_range(key, 0, 0) == b""


def test_an_empty_object_is_an_object(any_store: ObjectStore, fresh_prefix: str) -> None:
    key = f"{fresh_prefix}/empty"
    any_store.put_if_absent(key, b"")
    assert any_store.get(key) == b""
    assert any_store.size(key) == 0
    assert any_store.get_range(key, 0, 8) == b""
    assert list(any_store.list(f"{fresh_prefix}/")) == [key]


def test_a_second_put_is_refused_and_the_first_is_kept(
    any_store: ObjectStore, fresh_prefix: str
) -> None:
    key = f"{fresh_prefix}/once"
    any_store.put_if_absent(key, b"first")
    for again in (b"second", b"first", b""):
        with pytest.raises(Precondition, match="exists already"):
            any_store.put_if_absent(key, again)
    assert any_store.get(key) == b"first"


def test_a_file_goes_there_and_back_with_its_digest(
    any_store: ObjectStore, fresh_prefix: str, tmp_path: Path
) -> None:
    key, data = f"{fresh_prefix}/file", os.urandom(3 * 2**20 + 17)
    (tmp_path / "up").write_bytes(data)
    any_store.upload_if_absent(key, tmp_path / "up")
    assert any_store.download(key, tmp_path / "down", len(data)) == sha256(data)
    assert (tmp_path / "down").read_bytes() == data
    (tmp_path / "up").write_bytes(b"another")
    with pytest.raises(Precondition, match="exists already"):
        any_store.upload_if_absent(key, tmp_path / "up")


def test_who_watches_a_download_sees_its_bytes_once_and_in_order(
    any_store: ObjectStore, fresh_prefix: str, tmp_path: Path
) -> None:
    key, data = f"{fresh_prefix}/file", os.urandom(3 * 2**20 + 17)
    any_store.put_if_absent(key, data)
    seen = bytearray()

    def watch(begin: int, piece: bytes) -> None:
        assert begin == len(seen)
        seen.extend(piece)

    assert any_store.download(key, tmp_path / "down", len(data), watch) == sha256(data)
    assert seen == data == (tmp_path / "down").read_bytes()


def test_what_is_only_watched_is_neither_kept_nor_hashed(
    any_store: ObjectStore, fresh_prefix: str
) -> None:
    key, data = f"{fresh_prefix}/file", os.urandom(2**20 + 3)
    any_store.put_if_absent(key, data)
    seen = bytearray()
    assert any_store.download(key, None, len(data), lambda _, piece: seen.extend(piece)) == ""
    assert seen == data
    with pytest.raises(Corrupt):
        any_store.download(key, None, len(data) - 1)


def test_a_file_of_another_size_or_none_is_not_copied(
    any_store: ObjectStore, fresh_prefix: str, tmp_path: Path
) -> None:
    key = f"{fresh_prefix}/file"
    any_store.put_if_absent(key, b"0123456789")
    with pytest.raises(Corrupt, match=r"got (10|82) bytes, expected (9|81)"):  # 82 is sealed
        any_store.download(key, tmp_path / "down", 9)
    with pytest.raises(NotFound):
        any_store.download(f"{key}-not", tmp_path / "down", 9)


def test_put_once_goes_on_with_the_first_writers_bytes(
    any_store: ObjectStore, fresh_prefix: str
) -> None:
    key = f"{fresh_prefix}/twin"
    assert put_once(any_store, key, b"first") == b"first"
    assert put_once(any_store, key, b"slow twin") == b"first"


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 100_000], ids=["small", "more than one packet"])
def test_of_many_writers_at_once_exactly_one_wins(
    any_store: ObjectStore, fresh_prefix: str, size: int
) -> None:
    writers = 8
    start = threading.Barrier(writers)

    def write(key: str, number: int) -> bool:
        start.wait(timeout=30)
        try:
            any_store.put_if_absent(key, bytes([number]) * size)
        except Precondition:
            return False
        return True

    with ThreadPoolExecutor(writers) as pool:
        for race in range(3):
            key = f"{fresh_prefix}/race{race}"
            won = list(pool.map(write, [key] * writers, range(writers)))
            assert sum(won) == 1
            assert any_store.get(key) == bytes([won.index(True)]) * size


def test_a_large_object_survives_the_way(any_store: ObjectStore, fresh_prefix: str) -> None:
    key, data = f"{fresh_prefix}/large", os.urandom(20_000_000)
    any_store.put_if_absent(key, data)
    assert any_store.get(key) == data
    assert any_store.size(key) == len(data)
    assert any_store.get_range(key, 9_999_990, 20) == data[9_999_990:10_000_010]


def test_a_list_is_sorted_and_keeps_to_its_prefix(
    any_store: ObjectStore, fresh_prefix: str
) -> None:
    below = ["a-b/1", "a/2", "a/10", "a0", "b/c/d", "ab/1"]
    for name in below:
        any_store.put_if_absent(f"{fresh_prefix}/x/{name}", b"1")
    any_store.put_if_absent(f"{fresh_prefix}/x2/other", b"1")
    expected = sorted(f"{fresh_prefix}/x/{name}" for name in below)
    assert list(any_store.list(f"{fresh_prefix}/x/")) == expected
    assert list(any_store.list(f"{fresh_prefix}/x/a/")) == [
        f"{fresh_prefix}/x/a/10",
        f"{fresh_prefix}/x/a/2",
    ]
    assert list(any_store.list(f"{fresh_prefix}/nothing/")) == []


@pytest.mark.slow
def test_a_list_longer_than_a_page_is_whole(any_store: ObjectStore, fresh_prefix: str) -> None:
    names = [f"{fresh_prefix}/{n % 7}/{n:05d}" for n in range(1100)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: any_store.put_if_absent(key, b""), names))
    assert list(any_store.list(f"{fresh_prefix}/")) == sorted(names)


@pytest.mark.parametrize(
    "name", ["ä ö", "a+b", "50%25", "q?x=1&y=2", "#hash", "~.-_", "日本", "a=b"]
)
def test_keys_may_hold_odd_characters(any_store: ObjectStore, fresh_prefix: str, name: str) -> None:
    key = f"{fresh_prefix}/{name}/end"
    any_store.put_if_absent(key, b"odd")
    assert any_store.get(key) == b"odd"
    assert list(any_store.list(f"{fresh_prefix}/")) == [key]


@pytest.mark.parametrize("verb", ["get", "size", "get_range"])
def test_a_missing_object_is_not_found(
    any_store: ObjectStore, fresh_prefix: str, verb: str
) -> None:
    arguments = (0, 5) if verb == "get_range" else ()
    with pytest.raises(NotFound, match=rf"{fresh_prefix}/none"):
        getattr(any_store, verb)(f"{fresh_prefix}/none", *arguments)


def test_a_missing_object_is_told_by_its_address(store: S3Store, fresh_prefix: str) -> None:
    with pytest.raises(NotFound, match=rf"s3://hansa/{fresh_prefix}/none"):
        store.get(f"{fresh_prefix}/none")


def test_an_object_keeps_its_bytes_when_the_writer_changes_its_own(
    any_store: ObjectStore, fresh_prefix: str
) -> None:
    mine = bytearray(b"first")
    any_store.put_if_absent(f"{fresh_prefix}/object", mine)
    mine[:] = b"other"
    assert any_store.get(f"{fresh_prefix}/object") == b"first"


def test_a_replaced_object_is_the_same_by_every_verb(tmp_path: Path) -> None:
    truth = MemoryStore()
    truth.put_if_absent("a/key", b"the truth")
    store = Replaced(truth, "a/key", b"lie")
    assert (store.get("a/key"), store.size("a/key")) == (b"lie", 3)
    assert store.get_range("a/key", 1, 5) == b"ie"
    assert store.download("a/key", tmp_path / "down", 3) == sha256(b"lie")
    assert list(store.list("a/")) == ["a/key"]
    with pytest.raises(Precondition):
        store.put_if_absent("a/key", b"more")


def test_a_missing_bucket_is_named(weed: LocalStore, store: S3Store) -> None:
    elsewhere = S3Store(
        S3(endpoint=weed.s3.endpoint, bucket="nowhere"),
        credentials=weed.credentials[RUNNER],
    )
    verbs: list[Callable[[], object]] = [
        lambda: elsewhere.get("key"),
        lambda: elsewhere.put_if_absent("key", b""),
        lambda: elsewhere.list(""),
        elsewhere.check,
    ]
    for verb in verbs:
        with pytest.raises(Denied, match=r"storage\.s3\.bucket: got nowhere"):
            verb()


@pytest.mark.parametrize(
    "access_key, secret_key, sentence",
    [
        pytest.param("nobody", "x" * 40, "access key is not known", id="unknown access key"),
        pytest.param(None, "x" * 40, "secret key does not fit", id="wrong secret key"),
    ],
)
def test_wrong_credentials_are_denied_at_once(
    weed: LocalStore, access_key: str | None, secret_key: str, sentence: str
) -> None:
    pair = Credentials(
        access_key=access_key or weed.credentials["maze"].access_key, secret_key=secret_key
    )
    with pytest.raises(Denied, match=sentence) as caught:
        S3Store(weed.s3, credentials=pair).check()
    assert secret_key not in repr(pair) + str(caught.value)


def test_without_any_credentials_the_variables_to_set_are_named(weed: LocalStore) -> None:
    with pytest.raises(Denied, match=r"storage\.s3: found no complete credentials") as caught:
        S3Store(weed.s3).check()
    assert "AWS_ACCESS_KEY_ID" in caught.value.hint


def test_credentials_come_from_the_usual_variables(
    weed: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in weed.environ("maze").items():
        monkeypatch.setenv(name, value)
    S3Store(weed.s3).check()


def test_a_profile_that_does_not_exist_is_named(
    weed: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "no-such-profile")
    with pytest.raises(Denied, match="no-such-profile"):
        S3Store(weed.s3).check()


def test_a_proxy_of_the_company_does_not_catch_local_requests(
    weed: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    weed.store("maze", Retry(patience_seconds=5)).check()
