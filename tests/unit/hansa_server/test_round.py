"""The aggregator's story: what it makes, what it writes, and that it may be told twice."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hansa.adapter import lora
from hansa.api import bucket_documents, bucket_keys
from hansa.api.assignment import REPORT_LIMIT
from hansa.api.bucket_documents import FederationDocument, Member, StartAdapter
from hansa.api.reports import encode_report
from hansa.core.errors import AnotherRun, Corrupt, PermanentError
from hansa.core.exits import Exit
from hansa_server.gate import HELP
from hansa_server.stream import TooFewMembers
from tests.unit.hansa_server.rounds import (
    BASE_MODEL,
    ENVIRONMENTS,
    MODULES,
    PREFIX,
    RANK,
    SHAPES,
    Round,
    full_round,
    read_manifest,
    tensors,
)


@pytest.fixture
def merged() -> Round:
    """A round of three members that was aggregated."""
    round_ = full_round()
    round_.aggregate()
    return round_


def test_a_round_becomes_a_folder_that_its_manifest_describes():
    round_ = full_round()
    report = round_.aggregate()
    stored = read_manifest(round_)
    for name, entry in stored.files.items():
        data = round_.store.objects[round_.global_key(name)]
        assert (entry.sha256, entry.size) == (bucket_documents.sha256(data), len(data))
    assert set(stored.files) == {bucket_keys.ADAPTER, bucket_keys.CONFIG}
    assert stored.base_model == BASE_MODEL
    assert [member.environment for member in stored.members] == list(ENVIRONMENTS)
    assert stored.updates["maze"]["counts"]["explored"] == 4
    assert stored.updates["maze"]["loss"] == 1.5
    assert report.adapter == stored.files[bucket_keys.ADAPTER].sha256
    assert report.manifest == bucket_documents.sha256(
        round_.store.objects[round_.global_key(bucket_keys.MANIFEST)]
    )
    assert (report.members, report.refused) == ([0, 1, 2], [])


def test_the_owner_is_written_first_and_the_manifest_last_but_for_the_audit_entry(merged):
    names = [key.removeprefix(f"{PREFIX}/") for key in merged.store.written]
    assert names == [
        "federation.json",
        "global/00001/adapter_model.safetensors",
        "global/00001/adapter_config.json",
        "global/00001/manifest.json",
        "audit/00000001.json",
    ]


def test_the_mean_of_the_first_round_is_that_of_the_members(merged):
    for name, array in merged.result().items():
        expected = np.mean([tensors(i)[name].astype(np.float64) for i in range(3)], axis=0)
        np.testing.assert_array_equal(array, expected.astype(np.float32))


@pytest.mark.parametrize("step", [0.25, 1.0, 3.0])
def test_the_server_steps_from_the_start_towards_the_mean(step):
    round_ = full_round(server_step=step)
    round_.aggregate()
    start = lora.init_adapter(SHAPES, RANK, round_.seed)
    for name, array in round_.result().items():
        mean = np.mean([tensors(i)[name].astype(np.float64) for i in range(3)], axis=0)
        expected = start[name] + step * (mean - start[name])
        np.testing.assert_allclose(array, expected, rtol=1e-6, atol=1e-7)
    assert read_manifest(round_).norm == pytest.approx(lora.distance(round_.result(), start))


@settings(max_examples=25, deadline=None)
@given(order=st.permutations(ENVIRONMENTS), step=st.sampled_from([0.5, 1.0, 2.0]))
def test_members_in_any_order_give_equal_bytes(order, step):
    ordered, shuffled = full_round(server_step=step), full_round(server_step=step)
    shuffled.members = {name: shuffled.members[name] for name in order}
    assert ordered.aggregate() == shuffled.aggregate()
    assert ordered.store.objects == shuffled.store.objects


def test_a_later_round_starts_from_the_global_adapter_it_names():
    before = lora.encode(tensors(99))
    round_ = Round(
        number=4,
        start=StartAdapter(round=2, sha256=bucket_documents.sha256(before)),
        server_step=2.0,
    )
    round_.store.objects[bucket_keys.global_folder(PREFIX, 2) + bucket_keys.ADAPTER] = before
    round_.send("maze", tensors(1))
    round_.aggregate()
    name = min(SHAPES)
    expected = 2.0 * tensors(1)[name].astype(np.float64) - tensors(99)[name]
    np.testing.assert_allclose(round_.result()[name], expected, rtol=1e-6, atol=1e-6)


def test_the_config_names_the_modules_and_the_source(merged):
    config = json.loads(merged.store.objects[merged.global_key(bucket_keys.CONFIG)])
    assert config["target_modules"] == list(MODULES)
    assert config["base_model_name_or_path"] == "builtin:tiny"


def test_a_second_run_finds_the_first_one_and_reads_no_update():
    round_ = full_round()
    first = round_.aggregate()
    before = dict(round_.store.objects)
    round_.store.read.clear()
    round_.store.ranges.clear()
    assert round_.aggregate() == first
    assert round_.store.objects == before
    assert not [key for key in round_.store.read if "updates/" in key]
    assert not [key for key, *_ in round_.store.ranges if "updates/" in key]


def test_a_twin_that_wrote_another_adapter_first_is_the_one_that_counts():
    round_ = full_round()
    other = lora.encode(tensors(1234))
    round_.store.objects[round_.global_key(bucket_keys.ADAPTER)] = other
    report = round_.aggregate()
    stored = read_manifest(round_)
    assert round_.store.objects[round_.global_key(bucket_keys.ADAPTER)] == other
    assert (
        stored.files[bucket_keys.ADAPTER].sha256 == bucket_documents.sha256(other) == report.adapter
    )
    start = lora.init_adapter(SHAPES, RANK, round_.seed)
    assert stored.norm == pytest.approx(lora.distance(tensors(1234), start))


def test_a_slow_twin_of_other_bytes_leaves_the_committed_folder_as_it_is():
    first, slow = full_round(), full_round()
    for environment in ENVIRONMENTS:  # stands for a machine whose arithmetic differs
        slow.send(environment, tensors(500))
    slow_objects = slow.store.objects
    report = first.aggregate()

    def commit_first(key: str) -> None:
        if key.endswith(bucket_keys.ADAPTER):
            slow_objects.update(
                {k: v for k, v in first.store.objects.items() if f"{PREFIX}/global/" in k}
            )

    slow.store.before_put = commit_first
    twin = slow.aggregate()
    assert twin == report.model_copy(update={"audit": twin.audit})  # its members are others here
    for name in (bucket_keys.ADAPTER, bucket_keys.CONFIG, bucket_keys.MANIFEST):
        assert slow_objects[slow.global_key(name)] == first.store.objects[first.global_key(name)]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"half", id="truncated"),
        pytest.param(lora.encode(tensors(1, scale=np.inf)), id="not finite"),
    ],
)
def test_a_broken_adapter_of_a_twin_is_no_result(data):
    round_ = full_round()
    round_.store.objects[round_.global_key(bucket_keys.ADAPTER)] = data
    with pytest.raises(Corrupt, match=bucket_keys.ADAPTER):
        round_.aggregate()
    assert round_.global_key(bucket_keys.MANIFEST) not in round_.store.objects


def test_a_committed_result_of_other_settings_is_another_run(merged):
    merged.server_step = 3.0
    with pytest.raises(AnotherRun, match=r"aggregation\.serverStep 1\.0 there, 3\.0 here"):
        merged.aggregate()


def test_a_prefix_of_another_seed_is_refused_by_field(merged):
    later = full_round(number=2, seed=8, store=merged.store)
    with pytest.raises(AnotherRun, match="seed 7 there, 8 here"):
        later.aggregate()


def test_the_owner_is_written_with_the_first_round_only(merged):
    data = merged.store.objects[bucket_keys.federation(PREFIX)]
    owner = FederationDocument.model_validate_json(data)
    assert owner.identity == merged.assignment().identity()
    assert owner.base_model == BASE_MODEL


def test_an_owner_with_another_base_model_written_meanwhile_is_another_run():
    round_ = full_round()

    def other_owner(key: str) -> None:
        if key == bucket_keys.federation(PREFIX):
            document = FederationDocument(
                program="0", identity=round_.assignment().identity(), base_model="c" * 64
            )
            round_.store.objects[key] = bucket_documents.canonical(document.to_json())

    round_.store.before_put = other_owner
    with pytest.raises(AnotherRun, match=r"model\.sha256"):
        round_.aggregate()


@pytest.mark.parametrize("name", [bucket_keys.ADAPTER, bucket_keys.CONFIG])
def test_a_committed_folder_that_lost_a_file_or_its_end_is_corrupt(merged, name):
    kept = merged.store.objects.pop(merged.global_key(name))
    with pytest.raises(Corrupt, match=name):
        merged.aggregate()
    merged.store.objects[merged.global_key(name)] = kept[:-1]
    with pytest.raises(Corrupt, match=f"{name}: got {len(kept) - 1} bytes"):
        merged.aggregate()


@pytest.mark.parametrize("key", ["federation.json", "global/00001/manifest.json"])
def test_a_garbled_document_is_named(merged, key):
    merged.store.objects[f"{PREFIX}/{key}"] = b'{"kind":"???"}'
    with pytest.raises(Corrupt, match=key):
        merged.aggregate()


def test_a_refused_update_is_named_and_the_others_count():
    round_ = full_round(minimum=2)
    bad = tensors(1)
    bad[min(bad)][0, 0] = np.nan
    round_.send("maze", bad)
    report = round_.aggregate()
    assert (report.members, report.refused) == ([0, 2], [(1, "not-finite")])
    assert [(r.environment, r.reason) for r in read_manifest(round_).refused] == [
        ("maze", "not-finite")
    ]
    assert set(read_manifest(round_).updates) == {"babyai", "wordle"}
    name = max(SHAPES)
    expected = (tensors(0)[name].astype(np.float64) + tensors(2)[name]) / 2
    np.testing.assert_array_equal(round_.result()[name], expected.astype(np.float32))
    assert round_.aggregate().refused == report.refused


def test_too_few_updates_name_each_refusal_and_write_nothing_but_the_audit_entry():
    round_ = full_round(minimum=3)
    round_.send("maze", b"nonsense")
    round_.send("wordle", tensors(0), trained=False)
    with pytest.raises(
        TooFewMembers, match=r"1 of 3 .* maze \(unreadable\)|wordle \(untrained\)"
    ) as e:
        round_.aggregate()
    assert e.value.exit is Exit.TOO_FEW_UPDATES
    assert round_.store.written == [bucket_keys.audit_entry(PREFIX, 1)]
    assert (2, "untrained") in e.value.report.refused


def test_without_members_there_is_nothing_to_aggregate():
    with pytest.raises(TooFewMembers, match="0 of 0 updates"):
        Round().aggregate()


@pytest.mark.parametrize(
    "changes, sentence",
    [
        pytest.param({"role": "client"}, "role: got client", id="a client's assignment"),
        pytest.param(
            {"members": [Member(environment="maze", manifest="0" * 64)] * 2}, "twice", id="twice"
        ),
        pytest.param(
            {"members": [Member(environment="nowhere", manifest="0" * 64)]}, "nowhere", id="unknown"
        ),
    ],
)
def test_an_impossible_assignment_is_permanent(changes, sentence):
    with pytest.raises(PermanentError, match=sentence):
        Round().aggregate(**changes)


def test_a_step_that_leaves_the_range_of_fp32_is_permanent_and_writes_nothing():
    huge = lora.encode({n: np.full(s, 3e38, np.float32) for n, s in SHAPES.items()})
    round_ = Round(number=2, start=StartAdapter(round=1, sha256=bucket_documents.sha256(huge)))
    round_.server_step = 100.0
    round_.store.objects[bucket_keys.global_folder(PREFIX, 1) + bucket_keys.ADAPTER] = huge
    for environment in ENVIRONMENTS:
        round_.send(environment, {n: np.full(s, 1e3, np.float32) for n, s in SHAPES.items()})
    with pytest.raises(PermanentError, match=r"aggregation\.serverStep: got 100\.0"):
        round_.aggregate()
    assert not round_.store.written


def many(count: int) -> list[str]:
    return [f"environment-{i:03d}" for i in range(count)]


def test_the_largest_report_of_a_hundred_members_fits():
    round_ = full_round(environments=many(100), minimum=100)
    report = round_.aggregate()
    assert report.members == list(range(100))
    seconds = dict.fromkeys(("read", "aggregate", "write", "another"), 1234567.891)
    data = encode_report(report.model_copy(update={"seconds": seconds}))
    assert len(data) <= REPORT_LIMIT


def test_the_report_names_the_entry_of_the_audit_log_each_time():
    round_ = full_round()
    key = bucket_keys.audit_entry(PREFIX, round_.number)
    first, again = round_.aggregate(), round_.aggregate()
    assert first.audit == again.audit == bucket_documents.sha256(round_.store.objects[key])


def test_the_report_of_a_hundred_refusals_fits():
    round_ = Round(environments=many(100))
    longest = max(HELP, key=len)
    for environment in round_.environments:
        round_.send_manifest(environment, b"{}")
    with pytest.raises(TooFewMembers) as error:
        round_.aggregate()
    refused = [(index, longest) for index, _ in error.value.report.refused]
    assert len(refused) == 100
    report = error.value.report.model_copy(
        update={"refused": refused, "manifest": "f" * 64, "adapter": "f" * 64}
    )
    assert len(encode_report(report)) <= REPORT_LIMIT
