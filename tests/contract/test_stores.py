"""What every object store must do, on a real S3 server."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hansa import access, keys
from hansa.errors import Corrupt, Denied, NotFound, Precondition
from hansa.local.objectstore import RUNNER, LocalStore
from hansa.manifest import sha256
from hansa.spec import S3
from hansa.store.base import Credentials, put_once
from hansa.store.s3 import Retry, S3Store
from tests.conftest import ENVIRONMENTS, PREFIX


def test_what_was_put_is_read_back_whole_and_in_part(store: S3Store, fresh_prefix: str) -> None:
    key = f"{fresh_prefix}/object"
    store.put_if_absent(key, b"0123456789")
    assert store.get(key) == b"0123456789"
    assert store.size(key) == 10
    assert store.get_range(key, 2, 3) == b"234"
    assert store.get_range(key, 8, 100) == b"89"
    assert store.get_range(key, 10, 5) == b""
    assert store.get_range(key, 0, 0) == b""


def test_an_empty_object_is_an_object(store: S3Store, fresh_prefix: str) -> None:
    key = f"{fresh_prefix}/empty"
    store.put_if_absent(key, b"")
    assert store.get(key) == b""
    assert store.size(key) == 0
    assert store.get_range(key, 0, 8) == b""
    assert list(store.list(f"{fresh_prefix}/")) == [key]


def test_a_second_put_is_refused_and_the_first_is_kept(store: S3Store, fresh_prefix: str) -> None:
    key = f"{fresh_prefix}/once"
    store.put_if_absent(key, b"first")
    for again in (b"second", b"first", b""):
        with pytest.raises(Precondition, match="exists already"):
            store.put_if_absent(key, again)
    assert store.get(key) == b"first"


def test_a_file_goes_there_and_back_with_its_digest(
    store: S3Store, fresh_prefix: str, tmp_path: Path
) -> None:
    key, data = f"{fresh_prefix}/file", os.urandom(3 * 2**20 + 17)
    (tmp_path / "up").write_bytes(data)
    store.upload_if_absent(key, tmp_path / "up")
    assert store.download(key, tmp_path / "down", len(data)) == sha256(data)
    assert (tmp_path / "down").read_bytes() == data
    (tmp_path / "up").write_bytes(b"another")
    with pytest.raises(Precondition, match="exists already"):
        store.upload_if_absent(key, tmp_path / "up")


def test_who_watches_a_download_sees_its_bytes_once_and_in_order(
    store: S3Store, fresh_prefix: str, tmp_path: Path
) -> None:
    key, data = f"{fresh_prefix}/file", os.urandom(3 * 2**20 + 17)
    store.put_if_absent(key, data)
    seen = bytearray()

    def watch(begin: int, piece: bytes) -> None:
        assert begin == len(seen)
        seen.extend(piece)

    assert store.download(key, tmp_path / "down", len(data), watch) == sha256(data)
    assert seen == data == (tmp_path / "down").read_bytes()


def test_a_file_of_another_size_or_none_is_not_copied(
    store: S3Store, fresh_prefix: str, tmp_path: Path
) -> None:
    key = f"{fresh_prefix}/file"
    store.put_if_absent(key, b"0123456789")
    with pytest.raises(Corrupt, match="got 10 bytes, expected 9"):
        store.download(key, tmp_path / "down", 9)
    with pytest.raises(NotFound):
        store.download(f"{key}-not", tmp_path / "down", 9)


def test_put_once_goes_on_with_the_first_writers_bytes(store: S3Store, fresh_prefix: str) -> None:
    key = f"{fresh_prefix}/twin"
    assert put_once(store, key, b"first") == b"first"
    assert put_once(store, key, b"slow twin") == b"first"


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 100_000], ids=["small", "more than one packet"])
def test_of_many_writers_at_once_exactly_one_wins(
    weed: LocalStore, store: S3Store, fresh_prefix: str, size: int
) -> None:
    writers = 8
    start = threading.Barrier(writers)

    def write(key: str, number: int) -> bool:
        start.wait(timeout=30)
        try:
            store.put_if_absent(key, bytes([number]) * size)
        except Precondition:
            return False
        return True

    with ThreadPoolExecutor(writers) as pool:
        for race in range(3):
            key = f"{fresh_prefix}/race{race}"
            won = list(pool.map(write, [key] * writers, range(writers)))
            assert sum(won) == 1
            assert store.get(key) == bytes([won.index(True)]) * size


def test_a_large_object_survives_the_way(store: S3Store, fresh_prefix: str) -> None:
    key, data = f"{fresh_prefix}/large", os.urandom(20_000_000)
    store.put_if_absent(key, data)
    assert store.get(key) == data
    assert store.size(key) == len(data)
    assert store.get_range(key, 9_999_990, 20) == data[9_999_990:10_000_010]


def test_a_list_is_sorted_and_keeps_to_its_prefix(store: S3Store, fresh_prefix: str) -> None:
    below = ["a-b/1", "a/2", "a/10", "a0", "b/c/d", "ab/1"]
    for name in below:
        store.put_if_absent(f"{fresh_prefix}/x/{name}", b"1")
    store.put_if_absent(f"{fresh_prefix}/x2/other", b"1")
    expected = sorted(f"{fresh_prefix}/x/{name}" for name in below)
    assert list(store.list(f"{fresh_prefix}/x/")) == expected
    assert list(store.list(f"{fresh_prefix}/x/a/")) == [
        f"{fresh_prefix}/x/a/10",
        f"{fresh_prefix}/x/a/2",
    ]
    assert list(store.list(f"{fresh_prefix}/nothing/")) == []


@pytest.mark.slow
def test_a_list_longer_than_a_page_is_whole(store: S3Store, fresh_prefix: str) -> None:
    names = [f"{fresh_prefix}/{n % 7}/{n:05d}" for n in range(1100)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: store.put_if_absent(key, b""), names))
    assert list(store.list(f"{fresh_prefix}/")) == sorted(names)


@pytest.mark.parametrize(
    "name", ["ä ö", "a+b", "50%25", "q?x=1&y=2", "#hash", "~.-_", "日本", "a=b"]
)
def test_keys_may_hold_odd_characters(store: S3Store, fresh_prefix: str, name: str) -> None:
    key = f"{fresh_prefix}/{name}/end"
    store.put_if_absent(key, b"odd")
    assert store.get(key) == b"odd"
    assert list(store.list(f"{fresh_prefix}/")) == [key]


@pytest.mark.parametrize("verb", ["get", "size", "get_range"])
def test_a_missing_object_is_not_found(store: S3Store, fresh_prefix: str, verb: str) -> None:
    arguments = (0, 5) if verb == "get_range" else ()
    with pytest.raises(NotFound, match=rf"s3://hansa/{fresh_prefix}/none"):
        getattr(store, verb)(f"{fresh_prefix}/none", *arguments)


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


# Who may do what: the policies that `hansa policy` prints, installed on the server.

EXPERIENCE = {name: keys.experience_shard(PREFIX, name, 1) for name in ENVIRONMENTS}
UPDATE = {name: keys.update_folder(PREFIX, name, 1) + keys.MANIFEST for name in ENVIRONMENTS}
EVALUATION = {name: keys.evaluation(PREFIX, name, 1) for name in ENVIRONMENTS}
GLOBAL = keys.global_folder(PREFIX, 1) + keys.MANIFEST
FEDERATION = keys.federation(PREFIX)
OUTSIDE = f"{PREFIX}2/global/00001/manifest.json"
EVERYTHING = [
    *EXPERIENCE.values(),
    *UPDATE.values(),
    *EVALUATION.values(),
    GLOBAL,
    FEDERATION,
    OUTSIDE,
]
MAY_READ = {
    "maze": {GLOBAL, FEDERATION, EXPERIENCE["maze"], UPDATE["maze"], EVALUATION["maze"]},
    "maze2": {GLOBAL, FEDERATION, EXPERIENCE["maze2"], UPDATE["maze2"], EVALUATION["maze2"]},
    access.AGGREGATOR: {GLOBAL, FEDERATION, *UPDATE.values()},
}
MAY_WRITE = {
    "maze": {EXPERIENCE["maze"], UPDATE["maze"], EVALUATION["maze"]},
    "maze2": {EXPERIENCE["maze2"], UPDATE["maze2"], EVALUATION["maze2"]},
    access.AGGREGATOR: {GLOBAL, FEDERATION},
}
IDENTITIES = list(MAY_READ)


@pytest.fixture(scope="module")
def filled(weed: LocalStore) -> LocalStore:
    for key in EVERYTHING:
        put_once(weed.store(), key, b"there")
    return weed


@pytest.fixture(scope="module")
def seen_by(filled: LocalStore) -> dict[str, S3Store]:
    return {name: filled.store(name) for name in filled.credentials}


@pytest.mark.parametrize("identity", IDENTITIES)
@pytest.mark.parametrize("key", EVERYTHING)
def test_reading_and_listing_is_for_those_who_may(
    seen_by: dict[str, S3Store], identity: str, key: str
) -> None:
    mine = seen_by[identity]
    folder = key.rpartition("/")[0] + "/"
    missing = key.replace("00001", "00404")
    if key in MAY_READ[identity]:
        assert mine.get(key) == b"there"
        assert mine.get_range(key, 1, 2) == b"he"
        assert mine.size(key) == 5
        assert key in mine.list(key if key == FEDERATION else folder)
        if missing != key:
            with pytest.raises(NotFound):
                mine.get(missing)
            with pytest.raises(NotFound):
                mine.size(missing)
        return
    refused: list[Callable[[], object]] = [
        lambda: mine.get(key),
        lambda: mine.get_range(key, 1, 2),
        lambda: mine.size(key),
        lambda: mine.list(key),
        lambda: mine.list(folder),
        lambda: mine.get(missing),
        lambda: mine.size(missing),
    ]
    for verb in refused:
        with pytest.raises(Denied):
            verb()


@pytest.mark.parametrize("identity", IDENTITIES)
@pytest.mark.parametrize("key", EVERYTHING)
def test_writing_is_for_those_who_may(seen_by: dict[str, S3Store], identity: str, key: str) -> None:
    mine = seen_by[identity]
    may = key in MAY_WRITE[identity]
    with pytest.raises(Precondition if may else Denied):
        mine.put_if_absent(key, b"mine")
    assert seen_by[RUNNER].get(key) == b"there"
    new = key.replace("00001", f"9{IDENTITIES.index(identity):04d}")
    if new == key:
        return
    if may:
        assert put_once(mine, new, b"new") == b"new"
    else:
        with pytest.raises(Denied):
            mine.put_if_absent(new, b"new")


@pytest.mark.parametrize("identity", IDENTITIES)
@pytest.mark.parametrize(
    "prefix",
    ["", PREFIX, f"{PREFIX}/", f"{PREFIX}/experience/", f"{PREFIX}/updates/ma", f"{PREFIX}2/"],
)
def test_nobody_lists_above_what_is_theirs(
    seen_by: dict[str, S3Store], identity: str, prefix: str
) -> None:
    mine = seen_by[identity]
    if identity == access.AGGREGATOR and prefix.startswith(f"{PREFIX}/updates/"):
        assert any(mine.list(prefix))
        return
    with pytest.raises(Denied):
        mine.list(prefix)


@pytest.mark.parametrize("identity", IDENTITIES)
def test_everyone_passes_the_check(seen_by: dict[str, S3Store], identity: str) -> None:
    seen_by[identity].check()
