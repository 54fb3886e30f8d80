"""Files of tensors: read by ranges and never trusted, written in any order to equal bytes."""

import io
import json
import pickle
import struct
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hansa.adapter import lora, tensor_file
from hansa.adapter.tensor_file import FLOATS, AdapterError, TensorFile, TensorWriter
from tests.support.merging import draw, encode_reversed, make_shapes

SHAPES = make_shapes(3, (5, 7), (4, 2))
SOUND = lora.encode(draw(1, SHAPES))


def opened(data: bytes) -> TensorFile:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(data)
        return lora.open_file(path)


def refused(data: bytes) -> AdapterError:
    with pytest.raises(AdapterError) as error:
        opened(data)
    assert error.value.message.isprintable()
    return error.value


def zipped(data: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", data)
    return packed.getvalue()


def test_whole_tensors_rows_columns_and_values_are_those_that_were_written():
    tensors = draw(1, SHAPES)
    with opened(SOUND) as file:
        assert file.shapes == SHAPES
        for name, array in tensors.items():
            np.testing.assert_array_equal(file.read(name), array)
            np.testing.assert_array_equal(file.rows(name, 1, 3), array[1:3])
            np.testing.assert_array_equal(file.columns(name, 1, 2), array[:, 1:2])
            np.testing.assert_array_equal(file.values(name, 2, 5), array.ravel()[2:5])


def test_a_stretch_is_the_tensors_one_behind_another_whatever_their_names(tmp_path):
    tensors = draw(1, SHAPES)
    flat = np.concatenate([tensors[name].ravel() for name in sorted(SHAPES)])
    with opened(SOUND) as file:
        np.testing.assert_array_equal(file.stretch(0, flat.size), flat)
        np.testing.assert_array_equal(file.stretch(4, 20, np.empty(50, np.float32)), flat[4:20])
    with TensorWriter(tmp_path / "file", SHAPES) as writer:
        writer.write_stretch(9, flat[9:])
        writer.write_stretch(0, flat[:9])
    assert (tmp_path / "file").read_bytes() == SOUND


def test_files_lie_alike_when_every_tensor_has_the_same_place(tmp_path):
    other = draw(2, SHAPES)
    halves = {name: array.astype(np.float16) for name, array in other.items()}
    safetensors.numpy.save_file(halves, tmp_path / "halves")
    with opened(SOUND) as file:
        assert file.has_same_layout(opened(SOUND))
        assert file.has_same_layout(opened(lora.encode(other)))
        assert not file.has_same_layout(opened(encode_reversed(other)))
        assert not file.has_same_layout(opened(lora.encode(draw(2, make_shapes(3, (5, 7))))))
        half = TensorFile(tmp_path / "halves", FLOATS)
        assert not file.has_same_layout(half) and not half.has_same_layout(file)
        assert not half.has_same_layout(TensorFile(tmp_path / "halves", FLOATS)), (
            "a stretch is of fp32"
        )


def test_the_order_of_writing_does_not_change_a_byte(tmp_path):
    tensors = draw(1, SHAPES)
    with TensorWriter(tmp_path / "file", SHAPES) as writer:
        for name in reversed(tensors):
            writer.write(name, tensors[name].astype(np.float64))
    assert (tmp_path / "file").read_bytes() == SOUND
    with (
        pytest.raises(AdapterError, match="expected"),
        TensorWriter(tmp_path / "other", SHAPES) as writer,
    ):
        writer.write(name, np.zeros((1, 1)))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_other_floats_are_read_as_fp32_where_they_are_allowed(tmp_path, dtype):
    tensors = {name: array.astype(dtype) for name, array in draw(1, SHAPES).items()}
    safetensors.numpy.save_file(tensors, tmp_path / "file")
    with lora.open_file(tmp_path / "file", FLOATS) as file:
        for name, array in tensors.items():
            np.testing.assert_array_equal(file.read(name), array.astype(np.float32))
            assert file.read(name).dtype == np.float32


def test_bf16_is_the_upper_half_of_fp32(tmp_path):
    import torch
    from safetensors.torch import save_file

    tensors = {n: torch.from_numpy(a).to(torch.bfloat16) for n, a in draw(1, SHAPES).items()}
    save_file(tensors, tmp_path / "file")
    with lora.open_file(tmp_path / "file", FLOATS) as file:
        for name, tensor in tensors.items():
            np.testing.assert_array_equal(file.read(name), tensor.float().numpy())


HEADER = (
    b'{"x":{"dtype":"F32","shape":['
    + b",".join([b"%d" % (2**48 - 1)] * 500_000)
    + b'],"data_offsets":[0,4]}}'
)
MANY_DIMENSIONS = struct.pack("<Q", len(HEADER)) + HEADER + bytes(4)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(pickle.dumps({"a": [1.0] * 100}), id="a pickle"),
        pytest.param(zipped(bytes(10**6)), id="a zip that grows a thousandfold"),
        pytest.param(SOUND[:-1], id="cut off"),
        pytest.param(SOUND + b"\0", id="too long"),
        pytest.param(SOUND[:100], id="cut off in the header"),
        pytest.param(struct.pack("<Q", 2**40) + SOUND[8:], id="a header of a terabyte"),
        pytest.param(SOUND.replace(b"lora_B", b"lora_A", 1), id="a tensor twice"),
        pytest.param(SOUND.replace(b"[0,", b"[4,", 1), id="wrong offsets"),
        pytest.param(SOUND.replace(b'"F32"', b'"F64"'), id="another type"),
        pytest.param(MANY_DIMENSIONS, id="a shape whose product takes for ever"),
    ],
)
def test_a_file_that_is_no_adapter_is_refused_in_one_sentence(data):
    refused(data)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400))
@example(struct.pack("<Q", 2) + b"{}")
def test_random_bytes_are_refused(data):
    refused(data)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, len(SOUND) - 1), st.integers(0, 255)), max_size=6),
    st.integers(0, len(SOUND)),
    st.binary(max_size=8),
)
def test_a_damaged_file_is_refused_or_read_whole(changes, cut, tail):
    data = bytearray(SOUND)
    for at, value in changes:
        data[at] = value
    try:
        file = opened(bytes(data[:cut]) + tail)
    except AdapterError:
        return
    with file:
        assert sum(file.read(name).nbytes for name in file.layout) <= len(SOUND)


numbers = st.integers(-(2**70), 2**70) | st.sampled_from([0, 1, 2, 8, 16, 2**31, 2**48, 2**63])
offsets = st.lists(numbers, max_size=3)
entry = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["F32", "F16", "I64", "", 1, None]),
        "shape": offsets,
        "data_offsets": offsets,
    },
    optional={"more": st.none()},
)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from([*SHAPES, "__metadata__", "x"]), entry, max_size=5))
def test_any_header_is_refused_or_covers_its_file(header: dict[str, Any]):
    text = json.dumps(header).encode()
    head = struct.pack("<Q", len(text)) + text
    try:
        layout = tensor_file.parse(head, len(head) + 16, FLOATS)
    except AdapterError as error:
        assert error.message.isprintable()
        return
    assert sum(e.end - e.begin for e in layout.values()) == 16
