"""An update says which head of the audit log its client saw, and what it was made with."""

from collections.abc import Iterator

import pytest

from hansa.api import bucket_keys
from hansa.api.assignment import Assignment
from hansa.api.bucket_documents import AuditHead, Counts, UpdateManifest, sha256
from hansa.core.errors import Denied
from hansa_client import send
from hansa_client.send import TrainedUpdate
from tests.support.memory_store import MemoryStore
from tests.unit.hansa_client.rounds import Assign

EMPTY = TrainedUpdate(base_model="b" * 64, counts=Counts(), seconds={})


def sent(store: MemoryStore, assignment: Assignment) -> UpdateManifest:
    return send.commit(store, assignment, EMPTY).manifest


def test_an_update_carries_the_newest_entry_before_its_round(assign: Assign) -> None:
    store = MemoryStore()
    for round_ in (1, 3, 4):
        store.objects[bucket_keys.audit_entry("run", round_)] = f"entry {round_}".encode()
    for name in ("notes.txt", "2.json", "00000002/x.json", "00000002.json/x"):
        store.objects[bucket_keys.audit_root("run") + name] = b"of somebody"
    assert sent(store, assign(round=4)).audit == AuditHead(round=3, sha256=sha256(b"entry 3"))


def test_before_the_first_entry_there_is_no_head(assign: Assign) -> None:
    assert sent(MemoryStore(), assign()).audit is None


def test_a_silo_that_may_not_read_the_log_sends_its_update_all_the_same(
    assign: Assign, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()

    def deny(prefix: str) -> Iterator[str]:
        raise Denied(f"{prefix}: access denied")

    monkeypatch.setattr(store, "list", deny)
    assert sent(store, assign()).audit is None


def test_where_nothing_is_merged_nobody_looks_for_a_log(assign: Assign) -> None:
    store = MemoryStore()
    store.objects[bucket_keys.audit_entry("run", 1)] = b"an entry"
    assert sent(store, assign(round=2, aggregation={"strategy": "none"})).audit is None


def test_an_update_tells_what_it_was_made_with(
    assign: Assign, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HANSA_IMAGE", "registry/client@sha256:abc")
    made = sent(MemoryStore(), assign()).made_with
    assert made["image"] == "registry/client@sha256:abc"
    assert made["device"] == "cpu"
    assert made.keys() == {"python", "machine", "torch", "device", "image"}
