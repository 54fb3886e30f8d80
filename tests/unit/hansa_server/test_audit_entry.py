"""The aggregator's entry in the audit log: what it says, and that it is written once."""

import numpy as np
import pytest

from hansa.api import bucket_documents, bucket_keys
from hansa.api.bucket_documents import GlobalManifest, StartAdapter
from hansa.core.errors import Corrupt, Denied
from hansa.store.audit_log import AuditEntry
from hansa_server.stream import TooFewMembers
from tests.unit.hansa_server.rounds import (
    ENVIRONMENTS,
    PREFIX,
    Round,
    full_round,
    kill_before_write,
    tensors,
)


def entry(round_: Round) -> AuditEntry:
    return AuditEntry.model_validate_json(
        round_.store.objects[bucket_keys.audit_entry(PREFIX, round_.number)]
    )


def after(before: Round, **changes: object) -> Round:
    """The next round on what another has made."""
    digest = before.aggregate().adapter
    start = StartAdapter(round=before.number, sha256=digest)
    return full_round(number=before.number + 1, start=start, store=before.store, **changes)


def test_an_entry_names_all_that_a_round_was_made_of_and_what_came_of_it():
    round_ = full_round()
    bad = tensors(1)
    bad[min(bad)][0, 0] = np.nan
    round_.send("maze", bad)
    round_.aggregate()
    made, raw = entry(round_), round_.store.objects[round_.global_key(bucket_keys.MANIFEST)]
    stored = GlobalManifest.model_validate_json(raw)
    assert made.result == bucket_documents.sha256(raw)
    assert made.previous is None
    assert (made.fingerprint, made.inputs) == (stored.fingerprint, stored.inputs)
    assert [m.environment for m in made.members] == sorted(ENVIRONMENTS)
    assert made.members == sorted(round_.members.values(), key=lambda m: m.environment)
    assert [(r.environment, r.reason) for r in made.refused] == [("maze", "not-finite")]
    owner = round_.store.objects[bucket_keys.federation(PREFIX)]
    assert made.owner == bucket_documents.sha256(owner)
    assert made.made_with == stored.made_with
    assert set(made.made_with) >= {"python", "numpy", "machine"}
    assert (made.sha256, made.signature) == (made.digest(), "")


def test_each_entry_has_the_digest_of_the_one_before():
    first = full_round()
    second = after(first)
    second.aggregate()
    before = entry(second).previous
    assert before is not None
    raw = second.store.objects[bucket_keys.audit_entry(PREFIX, 1)]
    assert (before.round, before.sha256) == (1, bucket_documents.sha256(raw))


def test_who_finds_a_committed_round_and_its_entry_tries_to_write_nothing():
    round_ = full_round()
    first = round_.aggregate()

    def refuse(key: str) -> None:
        raise AssertionError(key)

    round_.store.before_put = refuse
    assert round_.aggregate() == first


def test_a_round_of_before_the_log_gets_no_entry_in_front_of_later_ones():
    first = full_round()
    second = after(first)
    del first.store.objects[bucket_keys.audit_entry(PREFIX, 1)]
    second.aggregate()
    before = dict(first.store.objects)
    first.aggregate()
    assert first.store.objects == before


def test_an_entry_tells_of_the_build_that_merged_and_not_of_the_one_that_ran_again(monkeypatch):
    monkeypatch.setenv("HANSA_IMAGE", "registry/server@sha256:abc")
    round_ = full_round()
    kill_before_write(round_, 4)
    monkeypatch.setenv("HANSA_IMAGE", "registry/server@sha256:def")
    round_.aggregate()
    assert entry(round_).made_with["image"] == "registry/server@sha256:abc"


def test_a_round_that_too_few_updates_passed_has_an_entry_without_a_result():
    round_ = full_round(minimum=3)
    round_.send("maze", b"no adapter")
    with pytest.raises(TooFewMembers):
        round_.aggregate()
    made = entry(round_)
    assert (made.result, made.owner, made.minimum) == (None, None, 3)
    assert [(r.environment, r.reason) for r in made.refused] == [("maze", "unreadable")]
    with pytest.raises(TooFewMembers):
        round_.aggregate()
    assert entry(round_) == made


def test_an_entry_of_another_result_is_never_taken_for_this_rounds():
    round_ = full_round()
    round_.aggregate()
    key = bucket_keys.audit_entry(PREFIX, 1)
    other = entry(round_).model_copy(update={"result": "0" * 64})
    round_.store.objects[key] = bucket_documents.canonical(other.to_json())
    with pytest.raises(Corrupt, match=key):
        round_.aggregate()


def test_an_aggregator_that_may_not_read_the_log_says_so_before_it_merges(monkeypatch):
    round_ = full_round()

    def deny(prefix: str) -> None:
        raise Denied(f"{prefix}: access denied")

    monkeypatch.setattr(round_.store, "list", deny)
    with pytest.raises(Denied, match="demo/audit/") as caught:
        round_.aggregate()
    assert "hansa policy FILE aggregator" in caught.value.hint
    assert not round_.store.written
