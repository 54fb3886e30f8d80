"""What letters name is compared with the bucket: one byte of each kind of object is found."""

import pytest

from hansa.api import bucket_keys
from hansa.api.bucket_documents import FileEntry, StartAdapter, UpdateManifest, canonical, sha256
from hansa.api.letters import Answer, Letter, Reference, Work
from hansa.members.evidence import find_contradictions
from tests.support.courier_letters import RUN, answer_of
from tests.support.members import order
from tests.support.memory_store import MemoryStore

PREFIX, SILO, ROUND = "run", "clinic", 2
GLOBAL = bucket_keys.global_folder(PREFIX, 1) + bucket_keys.ADAPTER
UPDATE = bucket_keys.update_folder(PREFIX, SILO, ROUND)
EVALUATION = f"{bucket_keys.evaluation_root(PREFIX, SILO)}00001.json"
OBJECTS = [GLOBAL, UPDATE + bucket_keys.MANIFEST, UPDATE + bucket_keys.ADAPTER, EVALUATION]


def correspondence() -> tuple[MemoryStore, list[Letter]]:
    """An order and its answer, and all that they name."""
    store = MemoryStore()
    store.objects |= {
        GLOBAL: b"global",
        UPDATE + bucket_keys.ADAPTER: b"update",
        EVALUATION: b"success",
    }
    manifest = UpdateManifest(
        program="1.0",
        environment=SILO,
        round=ROUND,
        fingerprint="f" * 64,
        inputs={},
        base_model="b" * 64,
        start=StartAdapter(),
        trained=True,
        files={bucket_keys.ADAPTER: FileEntry(sha256=sha256(b"update"), size=6)},
    )
    store.objects[UPDATE + bucket_keys.MANIFEST] = written = canonical(manifest.to_json())
    start = {"round": 1, "sha256": sha256(b"global")}
    place = {"bucket": "bucket", "prefix": PREFIX}
    work = Work(
        run=RUN,
        environment=SILO,
        assignment=order(storage=place, round=ROUND, start=start),
        start_seconds=600,
        round_seconds=3600,
    )
    report = answer_of(0).model_copy(update={"round": ROUND, "manifest": sha256(written)})
    answer = Answer(
        run=RUN,
        environment=SILO,
        order=Reference(serial=1, digest="a" * 64),
        report=report,
        evaluations={"00001": sha256(b"success")},
    )
    return store, [work.place_at(1, ""), answer.place_at(1, "")]


def test_what_is_as_letters_say_is_not_mentioned() -> None:
    store, letters = correspondence()
    assert list(find_contradictions(store, PREFIX, SILO, letters)) == []


@pytest.mark.parametrize("key", OBJECTS)
def test_a_changed_byte_and_a_missing_object_are_named(key: str) -> None:
    store, letters = correspondence()
    store.objects[key] += b"x"
    [changed] = find_contradictions(store, PREFIX, SILO, letters)
    assert changed.startswith(f"{key}: got ")
    del store.objects[key]
    [gone] = find_contradictions(store, PREFIX, SILO, letters)
    assert gone.startswith(key) and gone.endswith("and it is gone")


def test_what_is_no_manifest_is_named() -> None:
    store = MemoryStore()
    store.objects[UPDATE + bucket_keys.MANIFEST] = b"{}"
    report = answer_of(0).model_copy(update={"round": ROUND, "manifest": sha256(b"{}")})
    about = Reference(serial=1, digest="a" * 64)
    answer = Answer(run=RUN, environment=SILO, order=about, report=report).place_at(3, "")
    [wrong] = find_contradictions(store, PREFIX, SILO, [answer])
    assert (
        wrong
        == f"{UPDATE}{bucket_keys.MANIFEST}: answer 3 names it, and it is no manifest of an update"
    )


def test_objects_of_any_size_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    store, letters = correspondence()
    monkeypatch.setattr("hansa.members.evidence.MOST_BYTES", 3)
    assert list(find_contradictions(store, PREFIX, SILO, letters)) == []
