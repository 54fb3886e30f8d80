"""An audit by letters: signed orders vouch for the log, signed answers for a silo's updates."""

from pathlib import Path

import pytest

from hansa.api import bucket_documents, bucket_keys
from hansa.api.exchange import Cursor
from hansa.api.letters import ORDERS, Rest
from hansa.api.spec import FederationSpec
from hansa.core.errors import Denied
from hansa.members.correspondence import Correspondence, read_correspondence
from hansa.store import audit_log
from hansa.store.audit_log import AuditEntry
from hansa_server.findings import Findings
from tests.support import mail
from tests.support.lettered_runs import RUN, Post, lettered, spec
from tests.support.mail import COORDINATOR, THIEF
from tests.support.memory_store import MemoryStore
from tests.unit.hansa_server.audited import check, make_run, rewrite
from tests.unit.hansa_server.rounds import PREFIX


def read(store: MemoryStore) -> Correspondence:
    return read_correspondence(spec(), store, "maze")


def found(store: MemoryStore, folder: Path) -> dict[int, Findings]:
    return check(store, folder, letters=[read(store)])


def sentences(findings: dict[int, Findings], round_: int) -> str:
    return "\n".join([*findings[round_].wrong, *findings[round_].unknown])


def test_every_entry_of_a_finished_run_is_signed_and_the_letters_are_counted(tmp_path):
    store = lettered(3)
    findings = found(store, tmp_path)
    assert [(f.verdict, f.signed) for f in findings.values()] == [("equal", True)] * 3
    letters = read(store)
    assert (letters.orders, letters.answers, letters.refused) == (4, 3, {})


def test_the_newest_entry_waits_for_the_next_order(tmp_path):
    findings = found(lettered(2, finished=False), tmp_path)
    assert [(f.verdict, f.signed) for f in findings.values()] == [("equal", True), ("equal", False)]


@pytest.mark.attack(
    by="a writer of the bucket",
    does="rewrites an entry of the audit log and all that follows from it",
    result="contradicts signed orders, and the status",
)
def test_a_log_that_was_rewritten_with_all_that_follows_is_found(tmp_path):
    """Whoever holds the bucket changes an entry, and mends the chain and the silos' words."""
    store = lettered(2)
    rewrite(store, 2, minimum=2)
    findings = found(store, tmp_path)
    assert findings[2].verdict == "differs"
    assert "is not what order 3 to maze names" in sentences(findings, 2)
    assert not findings[2].signed
    assert check(store, tmp_path / "unsigned")[2].verdict == "equal"  # nothing else tells


@pytest.mark.attack(
    by="a writer of the bucket",
    does="takes away an entry that an order names, or adds one",
    result="`hansa audit` finds it",
)
def test_an_entry_that_was_taken_away_is_found(tmp_path):
    store = lettered(2)
    del store.objects[bucket_keys.audit_entry(PREFIX, 2)]
    findings = found(store, tmp_path)
    assert findings[2].verdict == "differs"
    assert "is missing: it is what order 3 to maze names" in sentences(findings, 2)


@pytest.mark.attack(
    by="a writer of the bucket",
    does="takes away an entry that an order names, or adds one",
    result="`hansa audit` finds it",
)
def test_an_entry_that_was_added_after_the_last_order_is_found(tmp_path):
    """It fits the chain; the order that ends the federation does not vouch for it."""
    store = lettered(2)
    newest = audit_log.find_head(store, PREFIX, 3)
    key = bucket_keys.audit_entry(PREFIX, 2)
    entry = AuditEntry.model_validate_json(store.objects[key]).model_copy(
        update={"round": 3, "previous": newest, "result": None, "members": []}
    )
    whole = entry.model_copy(update={"sha256": entry.digest()})
    store.objects[bucket_keys.audit_entry(PREFIX, 3)] = bucket_documents.canonical(whole.to_json())
    findings = found(store, tmp_path)
    assert findings[3].verdict == "cannot be"
    assert "order 3 to maze is newer, and does not vouch for it" in sentences(findings, 3)


@pytest.mark.attack(
    by="a writer of the bucket",
    does="signs orders with a key of its own",
    result="vouches for nothing",
)
def test_an_order_that_another_key_signed_vouches_for_nothing(tmp_path):
    store = make_run(2)
    post = Post(store)
    post.order(1, None)
    post.order(2, audit_log.find_head(store, PREFIX, 2), THIEF)
    findings = found(store, tmp_path)
    assert [f.signed for f in findings.values()] == [False, False]
    letters = read(store)
    assert (letters.orders, letters.answers, letters.refused) == (1, 2, {"unknown-key": 1})


@pytest.mark.attack(
    by="the coordinator",
    does="merges an update that a silo elsewhere has not answered with",
    result="`hansa audit` finds it",
)
def test_an_update_that_its_silo_has_not_signed_an_answer_for_differs(tmp_path):
    """Update, entry and result were made anew, and fit one another."""
    store = lettered(1, finished=False)
    answers = read(store)
    answers.updates[1] = {"f" * 64}
    findings = check(store, tmp_path, letters=[answers])
    assert findings[1].wrong == ["maze has signed no answer with the update that the entry names"]
    assert findings[1].verdict == "differs"


def test_answers_of_a_key_that_was_retired_leave_a_round_unchecked(tmp_path):
    store = lettered(1)
    rotated = spec().to_json()
    rotated["environments"][-1]["member"]["publicKeys"] = [THIEF.public]
    letters = read_correspondence(FederationSpec.model_validate(rotated), store, "maze")
    findings = check(store, tmp_path, letters=[letters])
    assert findings[1].verdict == "cannot be"
    assert "keys that the manifest does not name" in sentences(findings, 1)


def test_letters_that_may_not_be_read_leave_a_round_unchecked(tmp_path, monkeypatch):
    store = lettered(1)
    with monkeypatch.context() as patch:
        patch.setattr(store, "get_range", _denied)
        letters = read(store)
    findings = check(store, tmp_path, letters=[letters])
    assert findings[1].verdict == "cannot be"
    assert sentences(findings, 1) == "letters of maze: not allowed"


def _denied(key: str, start: int, length: int) -> bytes:
    raise Denied("not allowed")


@pytest.mark.attack(
    by="a writer of the bucket",
    does="rewrites an entry of the audit log and all that follows from it",
    result="contradicts signed orders, and the status",
)
def test_the_federations_status_knows_the_newest_entry_without_any_key(tmp_path):
    store = make_run(2)
    head = audit_log.find_head(store, PREFIX, 3)
    assert check(store, tmp_path / "before", head=head)[2].verdict == "equal"
    rewrite(store, 2, minimum=2)
    [why] = check(store, tmp_path / "after", head=head)[2].wrong
    assert why.endswith("is not what the federation's status names")


@pytest.mark.parametrize("why", ["suspended", "removed"])
def test_who_rests_in_the_middle_of_a_round_says_nothing_of_its_entry(why, tmp_path):
    store = lettered(2, finished=False)
    post = Post(store)
    post.heads[ORDERS] = Cursor(serial=2, digest=read_digest(store))
    rest = Rest(why=why, audit=audit_log.find_head(store, PREFIX, 2), **mail.FIELDS)
    post.send(ORDERS, rest, COORDINATOR)
    assert found(store, tmp_path)[2].verdict == "equal"


def read_digest(store: MemoryStore) -> str:
    entry = mail.box(ORDERS, store, prefix=PREFIX, run=RUN).look(2)
    assert entry is not None
    return entry.digest  # type: ignore[union-attr]
