"""An audit: a sound run is equal, and whatever was changed is found and named."""

import random
import time
from collections.abc import Iterator

import pytest

from hansa.api import bucket_documents, bucket_keys
from hansa.api.bucket_documents import AuditHead, GlobalManifest, Refusal, StartAdapter
from hansa.core.errors import Denied
from hansa.store.audit_log import AuditEntry
from hansa_server import audit
from tests.support.memory_store import MemoryStore
from tests.unit.hansa_server.audited import check, flipped, forge_merge, make_run, rewrite
from tests.unit.hansa_server.rounds import PREFIX, Round, full_round, kill_before_write

KINDS = [
    pytest.param("federation.json", {}, id="the owner"),
    pytest.param("audit/00000001.json", {}, id="an entry"),
    pytest.param("audit/00000003.json", {}, id="the last entry"),
    pytest.param("global/00002/manifest.json", {}, id="a global manifest"),
    pytest.param("global/00002/adapter_model.safetensors", {}, id="a global adapter"),
    pytest.param("global/00002/adapter_config.json", {}, id="its config"),
    pytest.param(
        "global/00002/server_state.safetensors", {"strategy": "fedavgm"}, id="a server's state"
    ),
    pytest.param("updates/maze/00002/manifest.json", {}, id="an update's manifest"),
    pytest.param("updates/maze/00002/adapter_model.safetensors", {}, id="an update"),
    pytest.param(
        "updates/maze/00002/moments.safetensors", {"strategy": "regmean"}, id="its moments"
    ),
]


@pytest.mark.parametrize(
    "aggregation",
    [
        pytest.param({}, id="mean"),
        pytest.param({"strategy": "fedavgm"}, id="with a server's state"),
        pytest.param({"strategy": "fedex"}, id="with a frozen part"),
        pytest.param({"strategy": "regmean"}, id="with moments"),
        pytest.param({"strategy": "weighted-mean"}, id="with weights"),
        pytest.param({"step": "auto"}, id="with a step that fits itself"),
    ],
)
def test_a_sound_run_is_equal_round_by_round(aggregation, tmp_path):
    store = make_run(3, refused=True, **aggregation)
    found = check(store, tmp_path)
    assert {r: f.verdict for r, f in found.items()} == dict.fromkeys((1, 2, 3), "equal"), found
    assert [len(f.merged) for f in found.values()] == [3, 2, 3]
    assert found[2].refused == [Refusal(environment="maze", reason="not-finite")]


def test_an_audit_writes_nothing(tmp_path):
    store = make_run(2)
    before, written = dict(store.objects), len(store.written)
    check(store, tmp_path)
    assert (store.objects, len(store.written)) == (before, written)


def test_each_file_comes_over_the_wire_once_and_no_room_is_kept_for_it(tmp_path):
    store = make_run(3)
    store.read.clear()
    check(store, tmp_path)
    files = [key for key in store.read if key.endswith((bucket_keys.ADAPTER, bucket_keys.CONFIG))]
    assert len(files) == len(set(files)) == 3 * (2 + 3)
    assert len(list(tmp_path.iterdir())) == 2  # of the last global adapter


def test_a_bit_that_flipped_on_the_way_is_read_once_more(tmp_path, monkeypatch):
    store = make_run(1)
    get, flips = store.get, [f"{PREFIX}/updates/maze/00001/{bucket_keys.ADAPTER}"]

    def flip_once(key: str) -> bytes:
        if key in flips:
            flips.remove(key)
            return flipped(get(key), 99)
        return get(key)

    monkeypatch.setattr(store, "get", flip_once)
    assert check(store, tmp_path)[1].verdict == "equal"
    assert not flips


@pytest.mark.attack(
    by="a writer of the bucket",
    does="changes a byte of any object of a round",
    result="`hansa audit` finds and names it",
)
@pytest.mark.parametrize("name, aggregation", KINDS)
def test_one_flipped_bit_of_any_object_is_found_and_named(name, aggregation, tmp_path):
    sound = make_run(3, **aggregation)
    data = sound.objects[f"{PREFIX}/{name}"]
    dice = random.Random(name)
    for at in sorted({0, len(data) - 1, *(dice.randrange(len(data)) for _ in range(12))}):
        store = MemoryStore()
        store.objects = {**sound.objects, f"{PREFIX}/{name}": flipped(data, at)}
        found = check(store, tmp_path)
        wrong = [text for each in found.values() for text in each.wrong]
        assert any(f"{PREFIX}/{name}" in text for text in wrong), (at, found)


@pytest.mark.attack(
    by="a writer of the bucket",
    does="drops or swaps entries of the audit log",
    result="`hansa audit` finds it",
)
def test_an_entry_that_was_dropped_is_missed(tmp_path):
    for dropped in (1, 2):
        store = make_run(3)
        del store.objects[bucket_keys.audit_entry(PREFIX, dropped)]
        found = check(store, tmp_path)
        assert found[dropped].verdict == "differs"
        for sentence in ("is missing", "no entry of the audit log names it"):
            assert any(sentence in text for text in found[dropped].wrong)


def test_the_newest_entry_that_was_dropped_leaves_its_round_unchecked(tmp_path):
    store = make_run(3)
    del store.objects[bucket_keys.audit_entry(PREFIX, 3)]
    found = check(store, tmp_path)
    assert found[3].verdict == "cannot be"
    assert "no entry" in found[3].unknown[0]


def test_the_newest_entry_that_a_silo_has_seen_cannot_be_dropped(tmp_path):
    store = make_run(3)
    late = Round(number=4, store=store)
    raw = store.objects[bucket_keys.audit_entry(PREFIX, 3)]
    late.send("maze", late.trained(1), audit={"round": 3, "sha256": bucket_documents.sha256(raw)})
    del store.objects[bucket_keys.audit_entry(PREFIX, 3)]
    found = check(store, tmp_path)
    assert found[3].verdict == "differs"
    assert any("maze saw in round 4" in text for text in found[3].wrong)


def test_a_silo_that_names_an_entry_of_the_future_is_told_of_in_its_own_round(tmp_path):
    store = make_run(2)
    late = Round(number=3, store=store)
    late.send("maze", late.trained(1), audit={"round": 2**53, "sha256": "0" * 64})
    found = check(store, tmp_path)
    assert list(found) == [1, 2, 3]
    assert "maze names an entry of round 9007199254740992" in found[3].wrong[0]


def test_one_round_alone_is_compared_with_what_the_next_one_saw(tmp_path):
    store = make_run(3)
    rewrite(store, 2, made_with={"numpy": "0"})
    raw = store.objects[bucket_keys.audit_entry(PREFIX, 2)]
    rewrite(store, 3, previous=AuditHead(round=2, sha256=bucket_documents.sha256(raw)))
    wrong = check(store, tmp_path, only=2)[2].wrong
    assert any("babyai saw in round 3" in text for text in wrong)


def test_who_may_not_list_updates_checks_what_can_be_read(tmp_path, monkeypatch):
    store = make_run(1)
    below = store.list

    def deny(prefix: str) -> Iterator[str]:
        if prefix.endswith("/updates/"):
            raise Denied(f"{prefix}: access denied")
        return below(prefix)

    monkeypatch.setattr(store, "list", deny)
    assert check(store, tmp_path)[1].verdict == "equal"


@pytest.mark.attack(
    by="a writer of the bucket",
    does="replaces the whole run",
    result="contradicts the federation's status",
)
def test_a_run_that_was_replaced_as_a_whole_is_not_the_one_in_the_status(tmp_path):
    ours, theirs = make_run(2), make_run(3, step=0.5)
    adapters = {
        round_: bucket_documents.sha256(
            ours.objects[bucket_keys.global_folder(PREFIX, round_) + bucket_keys.ADAPTER]
        )
        for round_ in (1, 2)
    }
    assert {f.verdict for f in check(ours, tmp_path, adapters=adapters).values()} == {"equal"}
    found = check(theirs, tmp_path, adapters={**adapters, 4: "0" * 64})
    assert "names another adapter than the federation's status" in found[1].wrong[0]
    assert [f.verdict for f in found.values()] == ["differs", "differs", "cannot be", "differs"]
    assert found[4].wrong == [
        "the federation's status has an adapter of it, and the store has none"
    ]


@pytest.mark.attack(
    by="a writer of the bucket",
    does="drops or swaps entries of the audit log",
    result="`hansa audit` finds it",
)
def test_swapped_entries_are_found(tmp_path):
    store = make_run(3)
    one, two = (bucket_keys.audit_entry(PREFIX, n) for n in (1, 2))
    store.objects[one], store.objects[two] = store.objects[two], store.objects[one]
    found = check(store, tmp_path)
    assert (found[1].verdict, found[2].verdict) == ("differs", "differs")
    assert f"{one}: is the entry of round 2" in found[1].wrong


@pytest.mark.attack(
    by="a writer of the bucket",
    does="rewrites the whole audit log",
    result="contradicts what silos saw",
)
def test_a_log_that_was_rewritten_as_a_whole_is_not_what_silos_saw(tmp_path):
    store = make_run(3)
    rewrite(store, 1, made_with={"numpy": "0"})
    for round_ in (2, 3):
        raw = store.objects[bucket_keys.audit_entry(PREFIX, round_ - 1)]
        rewrite(
            store, round_, previous=AuditHead(round=round_ - 1, sha256=bucket_documents.sha256(raw))
        )
    found = check(store, tmp_path)
    assert [f.verdict for f in found.values()] == ["differs", "differs", "equal"]
    assert any("babyai saw in round 2" in text for text in found[1].wrong)
    assert any("babyai saw in round 3" in text for text in found[2].wrong)


@pytest.mark.attack(
    by="the coordinator",
    does="stores another merge than the updates give",
    result="`hansa audit` finds it and names its first tensor",
)
def test_another_merge_than_that_of_the_updates_is_told_by_its_first_tensor(tmp_path):
    store = make_run(3)
    name = forge_merge(store, 3)
    found = check(store, tmp_path)
    assert [f.verdict for f in found.values()] == ["equal", "equal", "differs"]
    assert f"tensor {name} differs by up to" in found[3].wrong[0]


def test_bytes_of_another_version_cannot_be_compared(tmp_path, monkeypatch):
    monkeypatch.setattr(audit.np, "__version__", "0.0.1")
    store = make_run(2)
    forge_merge(store, 2)
    monkeypatch.undo()
    found = check(store, tmp_path)
    assert found[1].verdict == "equal"
    assert found[2].verdict == "cannot be"
    assert "numpy 0.0.1" in found[2].unknown[0]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"[" * 5000, id="deep"),
        pytest.param(b'{"kind":"audit","round":"\\ud800"}', id="no Unicode"),
        pytest.param(b"", id="nothing"),
        pytest.param(b"\xff" * 9, id="no text"),
        pytest.param(b" " * (4 * 2**20 + 1), id="long"),
    ],
)
@pytest.mark.parametrize("name", ["audit/00000002.json", "global/00002/manifest.json"])
def test_whatever_lies_there_ends_no_audit(name, text, tmp_path):
    store = make_run(2)
    store.objects[f"{PREFIX}/{name}"] = text
    found = check(store, tmp_path)
    assert (found[1].verdict, found[2].verdict) == ("equal", "differs")


def test_a_result_without_an_adapter_is_found(tmp_path):
    store = make_run(2)
    key = bucket_keys.global_folder(PREFIX, 1) + bucket_keys.MANIFEST
    made = GlobalManifest.model_validate_json(store.objects[key])
    store.objects[key] = bucket_documents.canonical(made.model_copy(update={"files": {}}).to_json())
    rewrite(store, 1, result=bucket_documents.sha256(store.objects[key]))
    found = check(store, tmp_path)
    assert (found[1].verdict, found[2].verdict) == ("differs", "differs")


@pytest.mark.attack(
    by="the coordinator",
    does="leaves a member out, or refuses it without a reason",
    result="`hansa audit` finds it",
)
def test_a_member_that_was_left_out_is_found(tmp_path):
    store = make_run(2)
    entry = AuditEntry.model_validate_json(store.objects[bucket_keys.audit_entry(PREFIX, 2)])
    rewrite(store, 2, members=[m for m in entry.members if m.environment != "maze"])
    assert "members is not what the entry says" in check(store, tmp_path)[2].wrong[0]


@pytest.mark.attack(
    by="the coordinator",
    does="leaves a member out, or refuses it without a reason",
    result="`hansa audit` finds it",
)
def test_a_refusal_without_a_reason_is_found(tmp_path):
    """The aggregator says that maze's update was broken, and merges the others alone."""
    store = make_run(1)
    lie = [Refusal(environment="maze", reason="not-finite")]
    key = bucket_keys.global_folder(PREFIX, 1) + bucket_keys.MANIFEST
    made = GlobalManifest.model_validate_json(store.objects[key])
    members = [m for m in made.members if m.environment != "maze"]
    made = made.model_copy(update={"refused": lie, "members": members})
    store.objects[key] = bucket_documents.canonical(made.to_json())
    rewrite(store, 1, refused=lie, result=bucket_documents.sha256(store.objects[key]))
    found = check(store, tmp_path)
    assert found[1].wrong == ["the gate says passed of maze's update, the entry not-finite"]


@pytest.mark.parametrize("name", ["manifest.json", "adapter_model.safetensors"])
def test_what_was_deleted_cannot_be_checked(name, tmp_path):
    store = make_run(2)
    del store.objects[f"{PREFIX}/updates/maze/00001/{name}"]
    found = check(store, tmp_path)
    assert [f.verdict for f in found.values()] == ["cannot be", "equal"]
    assert f"updates/maze/00001/{name}" in found[1].unknown[0]


def test_what_may_not_be_read_cannot_be_checked(tmp_path, monkeypatch):
    store = make_run(1)
    get_range = store.get_range

    def deny(key: str, start: int, length: int) -> bytes:
        if "/updates/maze/" in key:
            raise Denied(f"{key}: access denied")
        return get_range(key, start, length)

    monkeypatch.setattr(store, "get_range", deny)
    assert check(store, tmp_path)[1].unknown == [
        f"{PREFIX}/updates/maze/00001/manifest.json: access denied"
    ]


def test_a_round_that_too_few_updates_passed_is_checked_as_well(tmp_path):
    round_ = full_round(minimum=3)
    round_.send("maze", b"no adapter")
    with pytest.raises(Exception, match="2 of 3 updates"):
        round_.aggregate()
    found = check(round_.store, tmp_path)
    assert (found[1].verdict, found[1].failed) == ("equal", True)
    rewrite(round_.store, 1, minimum=2)
    assert "now enough do" in check(round_.store, tmp_path)[1].wrong[0]


@pytest.mark.parametrize("write", range(5))
def test_a_round_whose_aggregator_was_killed_is_equal(write, tmp_path):
    round_ = full_round()
    kill_before_write(round_, write)
    round_.aggregate()
    found = check(round_.store, tmp_path)
    assert {r: f.verdict for r, f in found.items()} == {1: "equal"}


def test_one_round_is_looked_into_alone(tmp_path):
    store = make_run(3)
    store.objects[bucket_keys.federation(PREFIX)] = b"{}"
    store.read.clear()
    found = check(store, tmp_path, only=2)
    assert list(found) == [2]
    files = [key for key in store.read if key.endswith((bucket_keys.ADAPTER, bucket_keys.CONFIG))]
    assert not [key for key in files if "/updates/" in key and "/00002/" not in key]


@pytest.mark.slow
def test_fifty_rounds_take_less_than_ten_seconds(tmp_path):
    store = make_run(50)
    began = time.process_time()
    found = check(store, tmp_path)
    assert time.process_time() - began < 10
    assert {f.verdict for f in found.values()} == {"equal"}
    assert len(found) == 50


def test_an_adapter_whose_merge_a_rollback_stopped_accuses_nobody(tmp_path):
    """Its aggregator was ended between the manifest and the entry, and nothing went on from it."""
    store = make_run(2)
    del store.objects[bucket_keys.audit_entry(PREFIX, 2)]
    again = full_round(number=3, start=start_of(store, 1), store=store)
    again.aggregate()
    found = check(store, tmp_path)
    assert {r: f.verdict for r, f in found.items()} == {1: "equal", 2: "cannot be", 3: "equal"}
    assert found[2].unknown == [
        f"{PREFIX}/global/00002/manifest.json: no entry of the audit log names it, "
        "and no later round continued from it"
    ]


def test_an_adapter_without_an_entry_that_a_later_round_went_on_from_differs(tmp_path):
    store = make_run(2)
    del store.objects[bucket_keys.audit_entry(PREFIX, 2)]
    full_round(number=3, start=start_of(store, 2), store=store).aggregate()
    found = check(store, tmp_path)
    assert found[2].wrong == [
        f"{PREFIX}/global/00002/manifest.json: no entry of the audit log names it"
    ]


@pytest.mark.parametrize("start", [[], {"round": []}, {"round": {}}, None, "1"])
def test_an_entry_that_names_no_start_ends_no_audit(start, tmp_path):
    store = make_run(2)
    rewrite(
        store,
        2,
        inputs={"start": start},
        fingerprint=bucket_documents.fingerprint({"start": start}),
    )
    assert check(store, tmp_path)[2].verdict == "differs"


def start_of(store: MemoryStore, round_: int) -> StartAdapter:
    """The adapter of a round, to continue from."""
    raw = store.objects[f"{bucket_keys.global_folder(PREFIX, round_)}{bucket_keys.MANIFEST}"]
    made = GlobalManifest.model_validate_json(raw)
    return StartAdapter(round=round_, sha256=made.files[bucket_keys.ADAPTER].sha256)
