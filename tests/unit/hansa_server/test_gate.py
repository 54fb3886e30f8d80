"""The gate: each refusal by its reason code, and nothing else that stops a round."""

import json
import time
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hansa.adapter import lora, tensor_file
from hansa.api import bucket_keys
from hansa.api.bucket_documents import StartAdapter
from hansa_server import gate
from hansa_server.stream import TooFewMembers
from tests.unit.hansa_server.audited import flipped
from tests.unit.hansa_server.rounds import (
    RANK,
    SHAPES,
    Round,
    full_round,
    later_round,
    refusal_of_maze,
    reshaped,
    tensors,
)

FIRST = min(SHAPES)


def renamed(name: str, new: str) -> lora.Tensors:
    return {new if key == name else key: value for key, value in tensors(1).items()}


def with_dtype(dtype: str) -> bytes:
    return lora.encode(tensors(1)).replace(b'"F32"', b'"%s"' % dtype.encode())


def with_value(value: float) -> lora.Tensors:
    spoiled = tensors(1)
    spoiled[FIRST][1, 2] = value
    return spoiled


def without_last_module() -> lora.Tensors:
    last = lora.target_names(SHAPES)[-1]
    return {name: array for name, array in tensors(1).items() if last not in name}


@pytest.mark.attack(
    by="a silo",
    does="sends an adapter with a wrong shape, layer, type, length or value",
    result="refused by its reason",
)
@pytest.mark.parametrize(
    "data, reason",
    [
        pytest.param(b"", "unreadable", id="no bytes"),
        pytest.param(b"PK\x03\x04 a pickle, perhaps", "unreadable", id="another format"),
        pytest.param(lora.encode(tensors(1))[:-4], "unreadable", id="cut off"),
        pytest.param(lora.encode(tensors(1)) + b"x", "unreadable", id="bytes behind the end"),
        pytest.param(with_dtype("I32"), "dtype", id="whole numbers"),
        pytest.param(with_dtype("F16"), "dtype", id="half floats"),
        pytest.param(with_value(np.nan), "not-finite", id="NaN"),
        pytest.param(with_value(-np.inf), "not-finite", id="infinite"),
        pytest.param(reshaped(A=(RANK + 1, 6), B=(5, RANK + 1)), "rank", id="another rank"),
        pytest.param(reshaped(A=(RANK, 7)), "shape", id="another width"),
        pytest.param(without_last_module(), "targets", id="a layer missing"),
        pytest.param(lora.encode(tensors(1)) * 9, "unreadable", id="nine files in one"),
    ],
)
@pytest.mark.parametrize("first_round", [True, False], ids=["from the seed", "from an adapter"])
def test_a_spoiled_adapter_is_refused_by_its_reason(data, reason, first_round):
    round_ = full_round() if first_round else later_round()
    round_.send("maze", data)
    assert refusal_of_maze(round_) == reason


@pytest.mark.parametrize("strategy, number", [("ffa", 1), ("ffa", 2), ("rolora", 1), ("rolora", 2)])
def test_an_update_that_changed_the_half_that_is_not_trained_is_refused(strategy, number):
    round_ = full_round(aggregation={"strategy": strategy})
    for before in range(1, number):
        digest = round_.aggregate().adapter
        start = StartAdapter(round=before, sha256=digest)
        round_ = Round(
            number=number, start=start, store=round_.store, aggregation=round_.aggregation
        )
        for position, environment in enumerate(round_.environments):
            round_.send(environment, round_.trained(10 + position))
    sent = round_.trained(1)
    kept = "B" if (strategy, number) == ("rolora", 2) else "A"
    name = next(name for name in sent if lora.side(name) == kept)
    sent[name] = sent[name].copy()
    sent[name][0, 0] = np.nextafter(sent[name][0, 0], np.float32(9))
    round_.send("maze", sent)
    assert refusal_of_maze(round_) == "half"


@pytest.mark.parametrize(
    "changes, reason",
    [
        pytest.param({"baseModel": "c" * 64}, "base-model", id="another base model"),
        pytest.param({"trained": False}, "untrained", id="nothing to train on"),
        pytest.param({"round": 2}, "other-run", id="another round"),
        pytest.param({"environment": "wordle"}, "other-run", id="another environment's"),
        pytest.param({"start": {"round": 1, "sha256": "0" * 64}}, "start", id="another start"),
        pytest.param({"files": {}}, "manifest-malformed", id="no adapter named"),
        pytest.param({"fingerprint": "0" * 64}, "manifest-malformed", id="foreign fingerprint"),
        pytest.param({"kind": "global"}, "manifest-malformed", id="a global manifest"),
        pytest.param({"surprise": 1}, "manifest-malformed", id="an unknown field"),
        pytest.param({"norm": "1"}, "manifest-malformed", id="a wrong type"),
        pytest.param({"counts": {"kept": 10**400}}, "manifest-malformed", id="a count beyond all"),
    ],
)
def test_a_manifest_that_does_not_fit_is_refused_by_its_reason(changes, reason):
    round_ = full_round()
    round_.send("maze", tensors(1), **changes)
    assert refusal_of_maze(round_) == reason


@pytest.mark.parametrize(
    "path, value, reason",
    [
        pytest.param(["training", "learningRate"], 0.5, "other-run", id="learning rate"),
        pytest.param(["seed"], 8, "other-run", id="seed"),
        pytest.param(["adapter", "alpha"], 32, "alpha", id="alpha"),
        pytest.param(["environment"], "wordle", "other-run", id="environment"),
        pytest.param(["start", "round"], 5, "start", id="start adapter"),
        pytest.param(["world"], "wordle", None, id="the world is the silo's own matter"),
    ],
)
def test_an_update_of_other_inputs_is_refused(path, value, reason):
    round_ = full_round()
    inputs = round_.client_inputs("maze")
    place: Any = inputs
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    round_.send("maze", tensors(1), inputs=inputs)
    if reason:
        assert refusal_of_maze(round_) == reason
    else:
        assert round_.aggregate().refused == []


@pytest.mark.attack(
    by="a writer of the bucket",
    does="replaces a manifest after the members were frozen",
    result="refused (`manifest-hash`)",
)
@pytest.mark.parametrize(
    "name, spoil, reason",
    [
        pytest.param(bucket_keys.MANIFEST, None, "manifest-missing", id="no manifest"),
        pytest.param(bucket_keys.MANIFEST, b" ", "manifest-hash", id="replaced after the freeze"),
        pytest.param(bucket_keys.ADAPTER, b"more", "size", id="an adapter of another length"),
    ],
)
def test_an_object_that_was_replaced_or_is_gone_is_refused(name, spoil, reason):
    round_ = full_round()
    key = round_.key("maze", name)
    data = round_.store.objects.pop(key)
    if spoil:
        round_.store.objects[key] = data + spoil
    assert refusal_of_maze(round_) == reason
    assert name == bucket_keys.MANIFEST or key not in round_.store.read


def test_an_adapter_of_other_bytes_is_refused():
    round_ = full_round()
    key = round_.key("maze", bucket_keys.ADAPTER)
    data = round_.store.objects[key]
    round_.store.objects[key] = flipped(data, len(data) - 1)
    assert refusal_of_maze(round_) == "sha256"


def test_a_manifest_is_read_by_one_request():
    round_ = full_round()
    round_.aggregate()
    manifests = {round_.key(name, bucket_keys.MANIFEST) for name in round_.environments}
    asked = [key for key, *_ in round_.store.ranges if key in manifests]
    assert sorted(asked) == sorted(manifests)
    assert not manifests & set(round_.store.read)


def test_a_manifest_with_a_bit_flipped_on_the_way_is_read_again(monkeypatch):
    round_ = full_round()
    key, whole = round_.key("maze", bucket_keys.MANIFEST), round_.store.get_range

    def flipped(asked: str, start: int, length: int) -> bytes:
        data = bytearray(whole(asked, start, length))
        data[len(data) // 2] ^= asked == key
        return bytes(data)

    monkeypatch.setattr(round_.store, "get_range", flipped)
    assert round_.aggregate().members == [0, 1, 2]
    assert round_.store.read.count(key) == 1


def test_of_an_oversized_manifest_no_more_than_the_bound_is_read():
    round_ = full_round()
    key = round_.key("maze", bucket_keys.MANIFEST)
    round_.send_manifest("maze", b" " * (3 * gate.MAX_MANIFEST))
    assert refusal_of_maze(round_) == "manifest-malformed"
    assert [asked for asked in round_.store.ranges if asked[0] == key] == [
        (key, 0, gate.MAX_MANIFEST + 1)
    ]
    assert key not in round_.store.read


def test_a_manifest_of_the_most_bytes_is_read():
    round_ = full_round()
    data = round_.store.objects[round_.key("maze", bucket_keys.MANIFEST)]
    round_.send_manifest("maze", data.ljust(gate.MAX_MANIFEST))
    assert round_.aggregate().members == [0, 1, 2]


@pytest.mark.parametrize("first_round", [True, False], ids=["from the seed", "from an adapter"])
def test_an_adapter_that_is_not_there_is_missing(first_round):
    round_ = full_round() if first_round else later_round()
    del round_.store.objects[round_.key("maze", bucket_keys.ADAPTER)]
    assert refusal_of_maze(round_) == "file-missing"


def test_a_file_far_larger_than_the_adapter_is_refused_unread():
    round_ = later_round()
    payload = sum(array.nbytes for array in tensors(1).values())
    round_.send("maze", bytes(payload + lora.MAX_HEADER + 1))
    assert refusal_of_maze(round_) == "size"
    assert round_.key("maze", bucket_keys.ADAPTER) not in round_.store.read


def test_a_frozen_part_leaves_no_room_for_larger_updates():
    before = full_round(aggregation={"strategy": "flora", "options": {"maxRank": 3 * RANK}})
    start = StartAdapter(round=1, sha256=before.aggregate().adapter)
    round_ = full_round(number=2, start=start, store=before.store, aggregation=before.aggregation)
    trained = sum(array.nbytes for array in tensors(1).values())
    assert sum(array.nbytes for array in before.result().values()) == 4 * trained
    round_.send("maze", bytes(trained + lora.MAX_HEADER + 1))
    assert refusal_of_maze(round_) == "size"
    assert round_.key("maze", bucket_keys.ADAPTER) not in round_.store.read


@pytest.mark.parametrize(
    "targets, refused",
    [
        pytest.param(["up_proj", "q_proj"], False, id="both by their last name"),
        pytest.param(["mlp.up_proj", "self_attn.q_proj"], False, id="by a longer name"),
        pytest.param(["up_proj"], True, id="one layer too many"),
        pytest.param(["proj", "up_proj"], True, id="half a name is no name"),
    ],
)
def test_layers_that_the_spec_does_not_name_are_refused(targets, refused):
    round_ = full_round(target_modules=targets)
    if not refused:
        assert round_.aggregate().members == [0, 1, 2]
        return
    with pytest.raises(TooFewMembers, match=r"maze \(targets\)"):
        round_.aggregate()


def test_a_header_longer_than_the_first_read_is_read_whole(monkeypatch):
    monkeypatch.setattr("hansa_server.scratch.FIRST_READ", 16)
    assert full_round().aggregate().members == [0, 1, 2]


HOSTILE_MANIFESTS = [
    b"",
    b"null",
    b"[]",
    b"\xff\xfe",
    b"{" * 5000,
    b'{"inputs":{"seed":' + b"9" * 5000 + b"}}",
    b" " * (gate.MAX_MANIFEST + 1),
]


@pytest.mark.parametrize("data", HOSTILE_MANIFESTS, ids=range(len(HOSTILE_MANIFESTS)))
def test_a_hostile_manifest_is_malformed_and_no_crash(data):
    round_ = full_round()
    round_.send_manifest("maze", data)
    assert refusal_of_maze(round_) == "manifest-malformed"


def test_an_environment_with_its_own_number_of_demonstrations_is_a_member():
    round_ = full_round()
    inputs = {**round_.client_inputs("maze"), "demonstrations": 0}
    round_.send("maze", tensors(1), inputs=inputs)
    assert round_.aggregate().members == [0, 1, 2]


def test_a_number_of_thousands_of_digits_in_the_inputs_is_malformed():
    round_ = full_round()
    key = round_.key("maze", bucket_keys.MANIFEST)
    huge = round_.store.objects[key].replace(b'"seed":7', b'"seed":' + b"7" * 6000)
    round_.send_manifest("maze", huge)
    assert refusal_of_maze(round_) == "manifest-malformed"


@settings(max_examples=60, deadline=None)
@given(at=st.integers(0, 2000), flip=st.integers(1, 255), honest=st.booleans())
def test_one_changed_byte_never_ends_in_anything_but_a_refusal_or_a_result(at, flip, honest):
    round_ = full_round()
    data = bytearray(lora.encode(tensors(1)))
    data[at % len(data)] ^= flip
    if honest:
        round_.send("maze", bytes(data))
    else:
        round_.store.objects[round_.key("maze", bucket_keys.ADAPTER)] = bytes(data)
    report = round_.aggregate()
    assert {reason for _, reason in report.refused} <= gate.HELP.keys()
    assert honest or report.members == [0, 2]


def test_every_reason_has_its_sentence_of_help():
    assert list(gate.HELP) == list(get_args(gate.RefusalReason))


@pytest.mark.attack(
    by="a silo",
    does="sends finite values of 1e30",
    result="refused (`too-large`)",
)
@pytest.mark.parametrize("value", [1e30, -1e30, 1.01e4, 3e38])
@pytest.mark.parametrize("count", [2, 3], ids=["of two", "of three"])
def test_one_value_that_no_adapter_has_is_refused_whatever_the_spec_says(value, count):
    round_ = full_round(
        environments=("babyai", "maze", "wordle")[:count], aggregation={"max_norm_ratio": 1e9}
    )
    round_.send("maze", with_value(value))
    assert round_.aggregate().refused == [(1, "too-large")]


def test_a_value_of_the_largest_size_passes():
    round_ = full_round(aggregation={"max_norm_ratio": 1e9, "strategy": "svd"})
    round_.send("maze", with_value(gate.MOST_VALUE))
    assert round_.aggregate().refused == []


def long_header(kind: str) -> bytes:
    """A file whose header alone has 15 MiB, of many small things."""
    size = 15 * 2**20
    piece = {
        "tensors": b'"a%08d":{"dtype":"F32","shape":[],"data_offsets":[0,0]}',
        "numbers": b'"a%08d":[0,1,2]',
        "metadata": b'"a%08d":"b"',
    }[kind]
    body = b",".join(piece % i for i in range(size // (len(piece % 0) + 1)))
    head = b'{"__metadata__":{%s}}' % body if kind == "metadata" else b"{%s}" % body
    return len(head).to_bytes(8, "little") + head


@pytest.mark.attack(
    by="a silo",
    does="sends megabytes of `{},`, or headers of 15 MiB",
    result="refused before they are parsed",
)
@pytest.mark.parametrize("kind", ["tensors", "numbers", "metadata"])
@pytest.mark.parametrize("first_round", [True, False], ids=["from the seed", "from an adapter"])
def test_a_header_far_longer_than_the_adapters_is_never_read(kind, first_round, monkeypatch):
    round_ = full_round() if first_round else later_round()
    round_.send("maze", long_header(kind))
    lengths = []
    loads = json.loads
    monkeypatch.setattr(json, "loads", lambda text, **how: lengths.append(len(text)) or loads(text))
    assert refusal_of_maze(round_) in ("unreadable", "size")
    assert max(lengths, default=0) < 2**17


@pytest.mark.attack(
    by="a silo",
    does="sends megabytes of `{},`, or headers of 15 MiB",
    result="refused before they are parsed",
)
def test_headers_are_read_one_at_a_time(monkeypatch):
    inside, most = [], []
    parse = tensor_file._parse

    def counted(*given):
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.02)
        inside.pop()
        return parse(*given)

    monkeypatch.setattr(tensor_file, "_parse_once", counted)
    assert full_round(environments=[f"e{i}" for i in range(8)]).aggregate().refused == []
    assert max(most) == 1
