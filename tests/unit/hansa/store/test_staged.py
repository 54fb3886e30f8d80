"""A store that stages a silo's updates: the exchange sees what is published, and no more."""

from pathlib import Path

import pytest

from hansa.api.bucket_documents import sha256
from hansa.core.errors import Corrupt, NotFound, Precondition
from hansa.store.staged import StagedStore
from tests.support.memory_store import MemoryStore

OWN, OTHERS = "run/updates/maze/00001/adapter", "run/updates/maze2/00001/adapter"


@pytest.fixture
def store() -> StagedStore:
    return StagedStore(
        MemoryStore(), MemoryStore(), root="run/updates/maze/", private_root="mine/masking/"
    )


def objects(store: StagedStore) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """What is in the exchange and in the private store."""
    shared, private = store._store, store._private
    assert isinstance(shared, MemoryStore) and isinstance(private, MemoryStore)
    return shared.objects, private.objects


def test_its_own_updates_are_in_the_private_store_and_all_else_in_the_exchange(
    store: StagedStore,
) -> None:
    store.put_if_absent(OWN, b"mine")
    store.put_if_absent(OTHERS, b"theirs")
    assert objects(store) == ({OTHERS: b"theirs"}, {"mine/masking/00001/adapter": b"mine"})
    assert list(store.list("run/")) == [OTHERS]


def test_every_verb_reads_them_where_they_are(store: StagedStore, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"0123456789")
    assert store.upload_if_absent(OWN, file) == sha256(b"0123456789")
    assert objects(store)[0] == {}
    assert (store.get(OWN), store.size(OWN)) == (b"0123456789", 10)
    assert store.get_range(OWN, 2, 3) == b"234"
    assert store.download(OWN, tmp_path / "copy", 10) == sha256(b"0123456789")
    assert (tmp_path / "copy").read_bytes() == b"0123456789"
    with pytest.raises(Corrupt):
        store.download(OWN, tmp_path / "copy", 9)
    with pytest.raises(Precondition):
        store.put_if_absent(OWN, b"again")


def test_what_is_published_is_not_taken_for_what_is_staged(store: StagedStore) -> None:
    assert store.publish(OWN, b"masked") == b"masked"
    with pytest.raises(NotFound):
        store.get(OWN)
    store.put_if_absent(OWN, b"mine")
    assert (store.get_published(OWN), store.get(OWN)) == (b"masked", b"mine")


def test_what_a_twin_has_published_stays(store: StagedStore) -> None:
    store.publish(OWN, b"first")
    assert store.publish(OWN, b"second") == b"first"
    assert objects(store) == ({OWN: b"first"}, {})
