"""A passing look at values: what it says is what a reader of the whole file would say."""

import numpy as np
import pytest

from hansa.adapter import lora
from hansa_server.scratch import ValueCheck
from tests.support.merging import draw, encode_reversed, make_shapes

SHAPES = make_shapes(3, (5, 7), (4, 2))


def with_value(value: float, place: int) -> bytes:
    """An adapter's file with that value in one place of its data."""
    tensors = draw(1, SHAPES)
    flat = np.concatenate([array.ravel() for array in tensors.values()])
    data = bytearray(lora.encode(tensors))
    begin = len(data) - flat.nbytes + 4 * place
    data[begin : begin + 4] = np.float32(value).tobytes()
    return bytes(data)


def glance(data: bytes, piece: int) -> bool:
    glance = ValueCheck()
    for begin in range(0, len(data), piece):
        glance(begin, data[begin : begin + piece])
    return glance.is_finite


PIECES = pytest.mark.parametrize("piece", [1, 3, 4, 7, 64, 1021, 2**20])


@PIECES
@pytest.mark.parametrize("place", [0, 1, 40, -1], ids=["first", "second", "within", "last"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_one_value_that_is_no_number_is_seen_wherever_pieces_end(value, place, piece) -> None:
    count = sum(int(np.prod(shape)) for shape in SHAPES.values())
    assert not glance(with_value(value, place % count), piece)


@PIECES
def test_numbers_are_numbers_also_where_their_squares_are_not(piece) -> None:
    assert glance(with_value(3e38, 5), piece)


@PIECES
def test_a_head_of_an_odd_length_moves_no_value(piece) -> None:
    sound = encode_reversed(draw(1, SHAPES))
    length = int.from_bytes(sound[:8], "little")
    odd = (length + 1).to_bytes(8, "little") + sound[8 : 8 + length] + b" " + sound[8 + length :]
    assert glance(odd, piece)
    assert not glance(odd[:-4] + np.float32(np.nan).tobytes(), piece)


def test_a_download_that_begins_anew_is_judged_by_its_last_try() -> None:
    glance = ValueCheck()
    broken, sound = with_value(np.nan, 0), with_value(1.0, 0)
    glance(0, broken)
    assert not glance.is_finite
    glance(0, sound[:401])
    glance(401, sound[401:])
    assert glance.is_finite


@PIECES
@pytest.mark.parametrize("data", [b"", b"short", b"\xff" * 4000], ids=["empty", "short", "no file"])
def test_what_is_no_adapter_is_left_to_whoever_opens_it(data, piece) -> None:
    assert glance(data, piece)
