"""The adapter as bytes: stable when written, not trusted when read, loaded by PEFT as it is."""

import json
import struct
import warnings
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hansa.adapter import lora
from hansa.adapter.lora import AdapterError
from hansa.api import bucket_documents, bucket_keys
from hansa.api.spec import Adapter

Q = "model.layers.0.self_attn.q_proj"
UP = "model.layers.0.mlp.up_proj"


def name(module: str, side: str) -> str:
    return f"base_model.model.{module}.lora_{side}.weight"


def shapes_of(rank: int = 8, width: int = 64, out: int = 48) -> lora.Shapes:
    return {
        name(module, side): shape
        for module in (Q, UP)
        for side, shape in (("A", (rank, width)), ("B", (out, rank)))
    }


def small() -> lora.Tensors:
    random = np.random.default_rng(5)
    return {n: random.standard_normal(s).astype(np.float32) for n, s in shapes_of(2, 4, 3).items()}


def file(header: Any, payload: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + payload


def entry(shape: Any, begin: Any, end: Any, dtype: Any = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def pair(a: Any, b: Any) -> dict[str, Any]:
    return {name(Q, "A"): a, name(Q, "B"): b}


SOUND = pair(entry([1, 2], 0, 8), entry([2, 1], 8, 16))


def test_what_was_written_is_read_back():
    tensors = small()
    again = lora.decode(lora.encode(tensors))
    assert list(again) == sorted(tensors)
    for key, array in tensors.items():
        assert again[key].dtype == np.float32
        assert again[key].flags.writeable
        np.testing.assert_array_equal(again[key], array)


def test_views_share_the_bytes_and_cannot_be_written():
    views = lora.decode(lora.encode(small()), copy=False)
    assert not any(array.flags.writeable or array.flags.owndata for array in views.values())


def test_equal_tensors_are_equal_bytes_whatever_their_order_or_layout():
    tensors = small()
    shuffled = {key: np.asfortranarray(tensors[key]) for key in reversed(tensors)}
    assert lora.encode(shuffled) == lora.encode(tensors)


def test_the_bytes_of_an_adapter_never_change():
    digest = bucket_documents.sha256(lora.encode(lora.init_adapter(shapes_of(), 8, 7)))
    assert digest == "5fc3a15ed50b4148b1a1c2b3b7388a56a71b5312c1a149bedc4318bf67ea7884"


def test_the_safetensors_library_reads_the_file_and_its_format():
    tensors = small()
    data = lora.encode(tensors)
    again = safetensors.numpy.load(data)
    assert again.keys() == tensors.keys()
    for key, array in tensors.items():
        np.testing.assert_array_equal(again[key], array)
    length = int.from_bytes(data[:8], "little")
    assert json.loads(data[8 : 8 + length])["__metadata__"] == {"format": "pt"}
    assert length % 8 == 0


def test_a_file_of_the_safetensors_library_is_read():
    tensors = small()
    again = lora.decode(safetensors.numpy.save(tensors, {"format": "pt"}))
    for key, array in tensors.items():
        np.testing.assert_array_equal(again[key], array)


@pytest.mark.attack(
    by="a silo",
    does="sends pickles, zips, overlaps, files cut off or too long",
    result="refused in one sentence",
)
@pytest.mark.parametrize(
    "data, reason",
    [
        pytest.param(b"", "truncated", id="nothing"),
        pytest.param(b"\x01\x02", "truncated", id="less than a length"),
        pytest.param(struct.pack("<Q", 100) + b"{}", "truncated", id="header cut off"),
        pytest.param(struct.pack("<Q", 2**63) + b"{}", "header", id="a header of exabytes"),
        pytest.param(file(b"not json"), "header", id="no JSON"),
        pytest.param(file(b"\xff\xff"), "header", id="no text"),
        pytest.param(file(b"[]"), "header", id="a list"),
        pytest.param(file(b"[" * 100_000), "header", id="nested without end"),
        pytest.param(file({}), "name", id="no tensors"),
        pytest.param(file({"__metadata__": {}}), "name", id="only metadata"),
        pytest.param(file(SOUND, bytes(12)), "truncated", id="tensors cut off"),
        pytest.param(file(SOUND, bytes(17)), "offsets", id="bytes behind the end"),
        pytest.param(
            file(
                b'{"%s":1,"%s":2}' % ((name(Q, "A").encode(),) * 2),
            ),
            "duplicate",
            id="a tensor twice",
        ),
        pytest.param(
            file(pair(entry([1, 2], 0, 8), entry([2, 1], 12, 20)), bytes(20)), "offsets", id="a gap"
        ),
        pytest.param(
            file(pair(entry([1, 2], 0, 8), entry([2, 1], 0, 8)), bytes(8)), "offsets", id="overlap"
        ),
        pytest.param(
            file(pair(entry([1, 2], 0, 12), entry([2, 1], 12, 20)), bytes(20)),
            "offsets",
            id="offsets that do not fit the shape",
        ),
        pytest.param(
            file(pair(entry([1, 2], -8, 0), entry([2, 1], 0, 8)), bytes(8)), "header", id="negative"
        ),
        pytest.param(
            file(pair(entry([1, 2.0], 0, 8), entry([2, 1], 8, 16)), bytes(16)), "header", id="float"
        ),
        pytest.param(
            file(pair(entry([True, 2], 0, 8), entry([2, 1], 8, 16)), bytes(16)), "header", id="bool"
        ),
        pytest.param(
            file(pair(entry([2**60, 2], 0, 8), entry([2, 1], 8, 16))), "header", id="huge shape"
        ),
        pytest.param(
            file(pair(entry([0, 2], 0, 0), entry([2, 1], 0, 8)), bytes(8)), "shape", id="empty"
        ),
        pytest.param(
            file(pair(entry([2], 0, 8), entry([2, 1], 8, 16)), bytes(16)), "shape", id="a vector"
        ),
        pytest.param(
            file(pair(entry([1, 2], 0, 4, "F16"), entry([2, 1], 4, 8, "F16"))), "dtype", id="half"
        ),
        pytest.param(file(pair(entry([1, 2], 0, 8, {}), 1)), "dtype", id="a dtype that is none"),
        pytest.param(file(pair(1, 2)), "header", id="an entry that is none"),
        pytest.param(file({name(Q, "A"): entry([1, 2], 0, 8)}, bytes(8)), "name", id="A without B"),
        pytest.param(file({"weight": entry([1, 2], 0, 8)}, bytes(8)), "name", id="another name"),
        pytest.param(
            file({"\ud800": entry([1, 1], 0, 4)}, bytes(4)), "name", id="text that is no Unicode"
        ),
    ],
)  # fmt: skip
def test_a_hostile_file_is_refused_by_its_reason(data, reason):
    with pytest.raises(AdapterError) as error:
        lora.decode(data)
    assert error.value.reason == reason
    assert error.value.message.isprintable()


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=300))
@example(file(b'{"a":NaN}'))
@example(file(b'{"a":' + b"9" * 5000 + b"}"))
def test_random_bytes_raise_nothing_but_an_adapter_error(data):
    with pytest.raises(AdapterError):
        lora.decode(data)
    with pytest.raises(AdapterError):
        lora.parse_shapes(data, len(data))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
field = st.sampled_from([[1, 2], [2, 1], [0, 8], [8, 16], "F32", [0, 0], [2**40, 2**40]])
entries = st.fixed_dictionaries(
    dict.fromkeys(("dtype", "shape", "data_offsets"), field | json_values)
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from([name(Q, "A"), name(Q, "B"), "x"]), entries | json_values))
def test_any_header_is_read_or_refused(header):
    try:
        tensors = lora.decode(file(header, bytes(16)))
    except AdapterError:
        return
    assert sum(array.nbytes for array in tensors.values()) == 16


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 5000), st.integers(1, 255), st.integers(0, 5000))
def test_a_damaged_file_is_refused_or_still_of_the_same_form(at, flip, cut):
    data = bytearray(lora.encode(small()))
    data[at % len(data)] ^= flip
    damaged = bytes(data[: len(data) - cut % 3])
    try:
        tensors = lora.decode(damaged)
    except AdapterError:
        return
    assert lora.encode(tensors)


@pytest.mark.parametrize(
    "tensors, reason",
    [
        pytest.param({}, "name", id="nothing"),
        pytest.param({"w": np.zeros((1, 1), np.float32)}, "name", id="another name"),
        pytest.param({k: v.astype(np.float64) for k, v in small().items()}, "dtype", id="float64"),
        pytest.param({k: v.ravel() for k, v in small().items()}, "shape", id="flat"),
        pytest.param({name(Q, "A"): np.zeros((1, 1), np.float32)}, "name", id="A without B"),
    ],
)
def test_what_is_no_adapter_is_not_written(tensors, reason):
    with pytest.raises(AdapterError) as error:
        lora.encode(tensors)
    assert error.value.reason == reason


def test_shapes_are_known_from_the_head_of_a_file():
    data = lora.encode(small())
    head = data[: lora.head_size(data[:8])]
    assert lora.parse_shapes(head, len(data)) == lora.shapes(small())
    with pytest.raises(AdapterError):
        lora.parse_shapes(head, len(data) - 1)
    with pytest.raises(AdapterError):
        lora.parse_shapes(head[:-1], len(data))


def test_the_start_changes_nothing_yet_and_has_pefts_bound():
    start = lora.init_adapter(shapes_of(width=100), 8, 7)
    for key, array in start.items():
        assert array.dtype == np.float32
        if "lora_B" in key:
            assert not array.any()
        else:
            assert np.abs(array).max() <= 0.1
            assert array.std() == pytest.approx(0.1 / np.sqrt(3), rel=0.1)


def test_each_tensor_has_a_stream_of_its_own():
    alone = lora.init_adapter({k: v for k, v in shapes_of().items() if Q in k}, 8, 7)
    together = lora.init_adapter(shapes_of(), 8, 7)
    for key, array in alone.items():
        np.testing.assert_array_equal(array, together[key])
    assert not np.array_equal(together[name(Q, "A")], together[name(UP, "A")])
    other_seed = lora.init_adapter(shapes_of(), 8, 8)
    assert not np.array_equal(together[name(Q, "A")], other_seed[name(Q, "A")])


def test_a_start_of_another_rank_is_refused():
    with pytest.raises(AdapterError, match="got rank 8, expected 4"):
        lora.init_adapter(shapes_of(), 4, 7)


@pytest.mark.attack(
    by="a silo",
    does="sends layers of unequal rank",
    result="refused",
)
@given(st.integers(0, 5), st.data())
def test_an_adapter_is_split_only_where_every_layer_has_the_same_rank(extra, data):
    shapes = shapes_of(rank=3 + extra)
    tensors = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    whole = lora.join(*lora.split(tensors, 3))
    assert all(np.array_equal(whole[name], tensors[name]) for name in tensors)
    odd = data.draw(st.sampled_from(sorted(tensors)))
    rows = tensors[odd] if lora.side(odd) == "A" else tensors[odd].T
    other = np.concatenate([rows, rows[:1]])
    tensors[odd] = other if lora.side(odd) == "A" else other.T
    with pytest.raises(AdapterError, match="got rank"):
        lora.split(tensors, 3)


def test_an_adapter_of_less_than_the_rank_has_no_frozen_part_to_split():
    with pytest.raises(AdapterError, match="got rank 8, expected 9 or more"):
        lora.split(lora.init_adapter(shapes_of(), 8, 7), 9)


def test_the_distance_is_the_norm_over_all_tensors():
    a, b = small(), {key: array + np.float32(0.5) for key, array in small().items()}
    count = sum(array.size for array in a.values())
    assert lora.distance(a, b) == pytest.approx(0.5 * np.sqrt(count), rel=1e-6)
    assert lora.distance(a, a) == 0.0
    with pytest.raises(AdapterError):
        lora.distance(a, {})


@pytest.mark.parametrize("value, finite", [(1.0, True), (np.nan, False), (np.inf, False)])
def test_finite_means_every_value_is_a_number(value, finite):
    tensors = small()
    tensors[name(UP, "B")][-1, -1] = value
    assert lora.is_finite(tensors) is finite


def test_the_config_is_sorted_and_names_the_source_as_the_spec_does():
    targets = [UP, Q, "lm_head"]
    first = lora.render_config(Adapter(rank=4, alpha=9, dropout=0.1), "builtin:tiny", targets)
    again = lora.render_config(Adapter(rank=4, alpha=9, dropout=0.1), "builtin:tiny", targets[::-1])
    assert first == again
    document = json.loads(first)
    assert document["target_modules"] == sorted(targets)
    assert list(document) == sorted(document)
    assert (document["r"], document["lora_alpha"], document["lora_dropout"]) == (4, 9, 0.1)
    assert document["base_model_name_or_path"] == "builtin:tiny"


@pytest.mark.parametrize(
    "source, name, revision",
    [
        pytest.param("path:/models/x", "/models/x", None, id="a folder"),
        pytest.param("path:models/x", "./models/x", None, id="a folder, not org/name of the hub"),
        pytest.param("hf:org/name@v1.2", "org/name", "v1.2", id="the hub, at a revision"),
        pytest.param("hf:org/name", "org/name", None, id="the hub, newest"),
        pytest.param("builtin:tiny", "builtin:tiny", None, id="ours, at another path everywhere"),
        pytest.param("s3://models/x", "s3://models/x", None, id="a store, which PEFT cannot read"),
    ],
)
def test_the_config_names_the_base_as_peft_does(source, name, revision):
    document = json.loads(lora.render_config(Adapter(), source, [Q]))
    assert (document["base_model_name_or_path"], document.get("revision")) == (name, revision)


def test_targets_are_the_modules_of_the_tensors():
    assert lora.target_names(small()) == [UP, Q]


@pytest.mark.slow
@pytest.mark.parametrize("layers", [2, 12], ids=["few modules", "more than PEFT shortens"])
def test_peft_loads_a_written_folder_as_it_is(tmp_path, caplog, layers):
    torch = pytest.importorskip("torch")
    from peft import LoraConfig, PeftModel, get_peft_model, get_peft_model_state_dict
    from transformers import LlamaConfig, LlamaForCausalLM

    def base() -> Any:
        torch.manual_seed(0)
        return LlamaForCausalLM(
            LlamaConfig(
                vocab_size=64,
                hidden_size=16,
                intermediate_size=24,
                num_hidden_layers=layers,
                num_attention_heads=2,
                num_key_value_heads=1,
            )
        )

    spec = Adapter(rank=4, alpha=8)
    made = get_peft_model(
        base(), LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM")
    )
    shapes = {
        key: tuple(t.shape)
        for key, t in get_peft_model_state_dict(made, save_embedding_layers=False).items()
    }
    start = lora.init_adapter(shapes, 4, 7)
    tensors = {key: array + np.float32(0.01) for key, array in start.items()}
    (tmp_path / bucket_keys.ADAPTER).write_bytes(lora.encode(tensors))
    config = lora.render_config(spec, "builtin:tiny", lora.target_names(tensors))
    (tmp_path / bucket_keys.CONFIG).write_bytes(config)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loaded = PeftModel.from_pretrained(base(), str(tmp_path))
    said = [str(warning.message) for warning in caught if "peft" in warning.filename]
    assert said == [record.message for record in caplog.records] == []
    # by default PEFT would look for the base model's config on the network
    state = get_peft_model_state_dict(loaded, save_embedding_layers=False)
    assert state.keys() == tensors.keys()
    for key, array in tensors.items():
        np.testing.assert_array_equal(state[key].numpy(), array)
    assert loaded.peft_config["default"].lora_alpha == 8
    tokens = torch.arange(8)[None]
    assert not torch.equal(loaded(tokens).logits, base()(tokens).logits)
