"""A silo's experience sealed to its own key: what goes in comes out, and nobody else reads it."""

import tracemalloc
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hansa.api import bucket_keys
from hansa.core.errors import KeyMissing, PermanentError, Precondition, UnsealError
from hansa.crypto import sealing
from hansa.store.base import ObjectStore, put_once
from hansa.store.experience import ENV_EXPERIENCE_KEY, ExperienceStore, open_experience_store
from hansa.store.sealed import open_sealing_store
from tests.support.memory_store import MemoryStore
from tests.support.sealed_stores import Killed, assignment

NEW, OLD, OTHER = (sealing.generate_opening_key() for _ in range(3))
SHARD = bucket_keys.experience_shard("fed", "maze", 1)
LATER = bucket_keys.experience_shard("fed", "maze", 2)
BUDGET = bucket_keys.privacy_budget("maze")
TURN = b"Thought: the patient is 43. Action: go left"


def over(store: ObjectStore, *own: sealing.OpeningKey) -> ExperienceStore:
    return ExperienceStore(store, "fed", "maze", own)


@given(data=st.binary(max_size=300), start=st.integers(0, 320), length=st.integers(0, 320))
def test_whatever_goes_in_comes_out_whole_and_in_part(data: bytes, start: int, length: int) -> None:
    silo = over(MemoryStore(), NEW)
    silo.put_if_absent(SHARD, data)
    assert silo.get(SHARD) == data
    assert silo.size(SHARD) == len(data)
    assert silo.get_range(SHARD, start, length) == data[start : start + length]


@pytest.mark.attack(
    by="a writer of the bucket",
    does="changes, exchanges or plants sealed experience, also with the public half of its key",
    result="the silo refuses it by name",
)
@given(data=st.binary(max_size=300), at=st.integers(0), change=st.integers(1, 255))
def test_no_byte_of_it_can_be_changed_unseen(data: bytes, at: int, change: int) -> None:
    store = MemoryStore()
    over(store, NEW).put_if_absent(SHARD, data)
    sealed = bytearray(store.objects[SHARD])
    sealed[at % len(sealed)] ^= change
    store.objects[SHARD] = bytes(sealed)
    with pytest.raises(UnsealError, match=SHARD):
        over(store, NEW).get(SHARD)


def test_everything_of_the_silo_is_sealed_and_nothing_else_is() -> None:
    store = MemoryStore()
    private = [
        SHARD,
        *(bucket_keys.experience_root("fed", "maze") + p for p in ("alone/x", "personal/y")),
    ]
    private += [
        bucket_keys.privacy_secret("maze", "r"),
        bucket_keys.sealed_updates("fed", "maze") + "z",
    ]
    others = [
        BUDGET,
        bucket_keys.experience_shard("fed", "maze2", 1),
        bucket_keys.evaluation("fed", "maze", 1),
    ]
    for key in (*private, *others):
        over(store, NEW).put_if_absent(key, TURN)
        assert over(store, NEW).get(key) == TURN
    assert {key for key, data in store.objects.items() if sealing.is_sealed(data)} == {*private}
    assert {key for key, data in store.objects.items() if TURN in data} == {*others}


@pytest.mark.attack(
    by="a writer of the bucket",
    does="changes, exchanges or plants sealed experience, also with the public half of its key",
    result="the silo refuses it by name",
)
def test_an_object_under_anothers_name_is_refused() -> None:
    store = MemoryStore()
    over(store, NEW).put_if_absent(SHARD, TURN)
    store.objects[LATER] = store.objects[SHARD]
    with pytest.raises(UnsealError, match=f"{LATER}: chunk 0 is not as it was sealed"):
        over(store, NEW).get(LATER)


@pytest.mark.attack(
    by="a writer of the bucket",
    does="changes, exchanges or plants sealed experience, also with the public half of its key",
    result="the silo refuses it by name",
)
def test_what_is_not_sealed_is_not_believed() -> None:
    store = MemoryStore()
    store.objects[SHARD] = b"what the bucket's owner would have the silo learn" * 2
    with pytest.raises(UnsealError, match=f"{SHARD}: it is not sealed"):
        over(store, NEW).get(SHARD)


@pytest.mark.attack(
    by="a writer of the bucket",
    does="changes, exchanges or plants sealed experience, also with the public half of its key",
    result="the silo refuses it by name",
)
def test_who_knows_the_public_half_alone_plants_nothing() -> None:
    store = MemoryStore()
    store.objects[SHARD] = sealing.seal(NEW.public, SHARD, TURN)
    with pytest.raises(UnsealError, match="chunk 0 is not as it was sealed"):
        over(store, NEW).get(SHARD)
    with pytest.raises(UnsealError):
        over(store, NEW).check()


def test_the_newest_key_seals_and_all_of_them_open() -> None:
    store = MemoryStore()
    over(store, OLD).put_if_absent(SHARD, b"before")
    over(store, NEW, OLD).put_if_absent(LATER, b"after")
    assert over(store, NEW, OLD).get(SHARD) == b"before"
    assert over(store, NEW).get(LATER) == b"after"
    with pytest.raises(KeyMissing, match=f"{LATER}: it is sealed to the key"):
        over(store, OLD).get(LATER)


def test_a_kill_or_a_twin_costs_nothing_and_the_first_bytes_count() -> None:
    store = MemoryStore()

    def kill(key: str) -> None:
        raise Killed

    store.before_put = kill
    with pytest.raises(Killed):
        put_once(over(store, NEW), SHARD, b"killed")
    store.before_put = lambda key: None
    assert put_once(over(store, NEW), SHARD, b"first") == b"first"
    assert put_once(over(store, NEW), SHARD, b"first") == b"first"
    assert put_once(over(store, NEW), SHARD, b"twin") == b"first"
    assert store.written == [SHARD]


def test_a_large_file_is_sealed_and_opened_a_little_at_a_time(tmp_path: Path) -> None:
    class Disk(MemoryStore):
        """Keeps what it is given where no memory is counted."""

        def upload_if_absent(self, key: str, path: Path) -> str:
            with path.open("rb") as file, (tmp_path / "object").open("wb") as kept:
                while piece := file.read(2**16):
                    kept.write(piece)
            return ""

    (tmp_path / "plain").write_bytes(TURN * 400_000)
    tracemalloc.start()
    digest = over(Disk(), NEW, OLD).upload_if_absent(SHARD, tmp_path / "plain")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 8 * sealing.CHUNK
    store = MemoryStore()
    store.objects[SHARD] = (tmp_path / "object").read_bytes()
    assert over(store, NEW).download(SHARD, tmp_path / "down", 400_000 * len(TURN)) == digest
    assert (tmp_path / "down").read_bytes() == TURN * 400_000
    with pytest.raises(Precondition):
        over(store, NEW).upload_if_absent(SHARD, tmp_path / "plain")


# -- what a client is given -----------------------------------------------------------------------

IN_SHARED = assignment(experience_storage=None)


def given_to(tmp_path: Path, *own: sealing.OpeningKey) -> Mapping[str, str]:
    (tmp_path / "own.key").write_bytes(b"".join(key.pem() for key in own))
    return {ENV_EXPERIENCE_KEY: str(tmp_path / "own.key")}


def test_a_client_with_a_key_seals_and_one_without_has_the_store_itself(tmp_path: Path) -> None:
    store = MemoryStore()
    assert open_experience_store(store, IN_SHARED, {}) is store
    client = open_experience_store(store, IN_SHARED, given_to(tmp_path, NEW, OLD))
    client.put_if_absent(SHARD, TURN)
    assert (
        sealing.unseal([sealing.OwnKey(private=NEW.private)], SHARD, store.objects[SHARD]) == TURN
    )


@pytest.mark.parametrize(
    "own, sentence",
    [
        pytest.param((), "it is sealed to the silo's own key, and HANSA_EXPERIENCE_KEY", id="none"),
        pytest.param((OTHER,), "it is sealed to the key .* not at hand", id="another"),
    ],
)
def test_without_its_key_a_client_stops_before_it_writes_anything(
    tmp_path: Path, own: tuple[sealing.OpeningKey, ...], sentence: str
) -> None:
    store = MemoryStore()
    over(store, NEW).put_if_absent(SHARD, TURN)
    store.objects[BUDGET] = b"{}"
    environ = given_to(tmp_path, *own) if own else {}
    with pytest.raises(KeyMissing, match=f"{SHARD}: {sentence}") as error:
        open_experience_store(store, IN_SHARED, environ)
    assert error.value.exit == PermanentError.exit
    open_experience_store(store, IN_SHARED, given_to(tmp_path, NEW))


def test_a_run_that_began_unsealed_is_not_gone_on_with_sealed(tmp_path: Path) -> None:
    store = MemoryStore()
    store.objects[SHARD] = TURN * 2
    with pytest.raises(UnsealError, match="it is not sealed"):
        open_experience_store(store, IN_SHARED, given_to(tmp_path, NEW))


def test_a_file_without_a_key_is_named(tmp_path: Path) -> None:
    with pytest.raises(PermanentError, match=r"HANSA_EXPERIENCE_KEY: .*own.key: got no private"):
        open_experience_store(MemoryStore(), IN_SHARED, given_to(tmp_path))


def test_updates_may_be_sealed_where_experience_is_and_neither_lies_open(tmp_path: Path) -> None:
    store = MemoryStore()
    private = open_experience_store(store, IN_SHARED, given_to(tmp_path, NEW))
    exchange = open_sealing_store(store, private, IN_SHARED)
    folder = bucket_keys.update_folder("fed", "maze", 3)
    put_once(exchange, folder + bucket_keys.ADAPTER, TURN)
    put_once(exchange, folder + bucket_keys.MANIFEST, b"{}")
    assert exchange.get(folder + bucket_keys.ADAPTER) == TURN
    assert len(store.objects) == 3
    assert not [key for key, data in store.objects.items() if TURN in data]
