"""A silo trains its own updates again: equal, or it is said what differs or why it cannot be."""

from collections.abc import Callable
from typing import Any

import pytest

from hansa import adapter, keys, logs, manifest
from hansa.assignment import Assignment
from hansa.audit import AuditEntry, CannotBe, Differs
from hansa.errors import Corrupt
from hansa.manifest import FileEntry, Member, StartAdapter, UpdateManifest
from hansa.spec import S3
from hansa_client.audit import Retraining
from hansa_server.round import aggregate
from tests.memory_store import MemoryStore
from tests.unit.hansa_client.rounds import SHARD, UPDATE, play

Assign = Callable[..., Assignment]
STORAGE = S3(bucket="bucket", prefix="run")


def make_run(assign: Assign, rounds: int, **fields: Any) -> MemoryStore:
    """Rounds of a federation of one silo."""
    store, start = MemoryStore(), StartAdapter()
    for number in range(1, rounds + 1):
        own = assign(environments=["maze"], round=number, start=start, **fields)
        member = Member(environment="maze", manifest=play(store, own).manifest)
        merged = own.model_copy(update={"role": "aggregator", "members": [member]})
        start = StartAdapter(
            round=number, sha256=aggregate(merged, store, logs.get("server")).adapter
        )
    return store


@pytest.fixture(scope="module")
def played() -> list[MemoryStore]:
    """The run, once it was played."""
    return []


@pytest.fixture
def store(assign: Assign, played: list[MemoryStore]) -> MemoryStore:
    """Two rounds, played once; every test has a copy."""
    if not played:
        played.append(make_run(assign, 2))
    copy = MemoryStore()
    copy.objects = dict(played[0].objects)
    return copy


def retrain(store: MemoryStore, round_: int) -> None:
    entry = AuditEntry.model_validate_json(store.objects[keys.audit_entry("run", round_)])
    Retraining(store, STORAGE, store, None, "maze")(entry)


def forge(store: MemoryStore, **changes: Any) -> None:
    """Change the manifest of the first round's update."""
    sent = UpdateManifest.model_validate_json(store.objects[UPDATE + keys.MANIFEST])
    changed = sent.model_copy(update=changes)
    store.objects[UPDATE + keys.MANIFEST] = manifest.canonical(changed.to_json())


def send_another(store: MemoryStore) -> str:
    """An update that was not trained on the silo's experience; its first other tensor."""
    tensors = adapter.decode(store.objects[UPDATE + keys.ADAPTER])
    name = min(tensors)
    tensors[name] = tensors[name] * 1.5
    data = adapter.encode(tensors)
    store.objects[UPDATE + keys.ADAPTER] = data
    forge(store, files={keys.ADAPTER: FileEntry(sha256=manifest.sha256(data), size=len(data))})
    return name


def test_every_update_is_the_same_when_it_is_trained_again(store: MemoryStore) -> None:
    before = dict(store.objects)
    again = Retraining(store, STORAGE, store, None, "maze")
    for round_ in (1, 2):
        entry = AuditEntry.model_validate_json(store.objects[keys.audit_entry("run", round_)])
        again(entry)
    assert store.objects == before


@pytest.mark.slow
@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"aggregation": {"strategy": "regmean", "momentsRank": 8}}, id="moments"),
        pytest.param({"aggregation": {"strategy": "rolora"}}, id="half an adapter"),
        pytest.param({"training": {"optimizerState": "keep", "epochs": 1}}, id="kept moments"),
        pytest.param({"experience": {"demonstrations": 3, "circles": "skip"}}, id="no circles"),
    ],
)
def test_what_the_settings_ask_for_is_done_again(assign: Assign, fields: dict[str, Any]) -> None:
    store = make_run(assign, 2, **fields)
    retrain(store, 2)


def test_an_update_that_was_trained_on_something_else_differs(store: MemoryStore) -> None:
    name = send_another(store)
    with pytest.raises(Differs, match=f"tensor {name} differs by up to"):
        retrain(store, 1)


def test_other_experience_gives_another_update(store: MemoryStore, assign: Assign) -> None:
    other = make_run(assign, 1, experience={"demonstrations": 4, "thoughts": False})
    shown = keys.experience_shard("run", "maze", 0)
    store.objects[shown] = other.objects[shown]
    with pytest.raises(Differs, match=f"{keys.ADAPTER}: tensor "):
        retrain(store, 1)


def test_a_garbled_shard_is_named(store: MemoryStore) -> None:
    store.objects[SHARD] = store.objects[SHARD][:-9]
    with pytest.raises(Corrupt, match=SHARD):
        retrain(store, 1)


@pytest.mark.parametrize("round_", [0, 1])
def test_a_shard_that_was_deleted_cannot_be_learned_from(store: MemoryStore, round_: int) -> None:
    key = keys.experience_shard("run", "maze", round_)
    del store.objects[key]
    with pytest.raises(CannotBe, match=key):
        retrain(store, 1)


def test_what_a_gpu_trained_is_not_trained_again(store: MemoryStore) -> None:
    forge(store, made_with={"device": "cuda"})
    with pytest.raises(CannotBe, match="GPU"):
        retrain(store, 1)


def test_bytes_of_another_version_cannot_be_compared(store: MemoryStore) -> None:
    send_another(store)
    forge(store, made_with={"torch": "1.0", "device": "cpu"})
    with pytest.raises(CannotBe, match=r"made with torch 1\.0, here is "):
        retrain(store, 1)


def test_a_round_without_the_silo_has_nothing_to_train(store: MemoryStore) -> None:
    entry = AuditEntry.model_validate_json(store.objects[keys.audit_entry("run", 1)])
    Retraining(store, STORAGE, store, None, "moon")(entry)


def test_a_private_update_is_made_again_by_the_key_of_its_noise(assign: Assign) -> None:
    place = S3(bucket="private", prefix="own")
    store = make_run(
        assign,
        2,
        privacy={"epsilon": 100.0, "delta": 1e-3, "noiseMultiplier": 1.0, "samplingRate": 0.5},
        training={"maxSteps": 2},
        experience_storage=place,
        evaluate=False,
    )
    before = dict(store.objects)
    entry = AuditEntry.model_validate_json(store.objects[keys.audit_entry("run", 2)])
    Retraining(store, STORAGE, store, place, "maze")(entry)
    assert store.objects == before
    key = keys.privacy_secret("own", "maze", "training-00002")
    store.objects[key] = b"x" * 32
    with pytest.raises(Differs, match=keys.ADAPTER):
        Retraining(store, STORAGE, store, place, "maze")(entry)
    del store.objects[key]
    with pytest.raises(CannotBe, match="the key of its noise is not in its store any more"):
        Retraining(store, STORAGE, store, place, "maze")(entry)
