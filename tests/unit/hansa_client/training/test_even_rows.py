"""Even rows: every sequence of every step has its place in a row of few shapes."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hansa_client.training import even_rows
from hansa_client.training.even_rows import RowShape
from hansa_client.trajectory import Sequence as Trajectory

LEAST = 8


def planned(lots: Sequence[Sequence[int]], lengths: Sequence[int], room: int) -> list[RowShape]:
    return even_rows.choose_shapes(lots, lengths, [length - 1 for length in lengths], room, LEAST)


@settings(max_examples=200, deadline=None)
@given(
    lengths=st.lists(st.integers(2, 900), min_size=1, max_size=40),
    room=st.integers(16, 4000),
    data=st.data(),
)
def test_every_sequence_of_every_step_is_in_one_row_that_has_room(
    lengths: list[int], room: int, data: st.DataObject
) -> None:
    everybody = range(len(lengths))
    lot = st.lists(st.sampled_from(everybody), unique=True)
    lots = data.draw(st.lists(lot, min_size=1, max_size=12))
    made = planned(lots, lengths, room)
    assert len({shape.length for shape in made}) == len(made)
    for each in lots if made else []:
        rows = list(even_rows.fill_rows(each, lengths, made))
        assert sorted(index for _, part in rows for index in part) == sorted(each)
        for shape, part in rows:
            assert len(part) <= shape.count
            assert max(lengths[index] for index in part) <= shape.length
            assert sum(lengths[index] - 1 for index in part) <= shape.wanted
    for shape in made:
        assert shape.count == 1 or shape.count * (shape.length - 15) <= room


@pytest.mark.parametrize(
    "lots, room, expected",
    [
        pytest.param([range(32)] * 8, 32 * 31, [RowShape(32, 32, 960)], id="all in one row"),
        pytest.param([range(32)] * 8, 20 * 31, [RowShape(16, 32, 480)], id="rows of the same size"),
        pytest.param([range(32)] * 7, 32 * 31, [], id="too few rows"),
        pytest.param([[], []], 32 * 31, [], id="nobody is drawn"),
        pytest.param(
            [range(33)] * 8,
            32 * 31,
            [RowShape(9, 112, 352), RowShape(17, 32, 512)],
            id="a long one and the longest of the others share a row",
        ),
    ],
)
def test_shapes_are_few_and_filled(
    lots: list[Sequence[int]], room: int, expected: list[RowShape]
) -> None:
    assert planned(lots, [*([31] * 32), 100], room) == expected


def test_a_shape_that_is_rarely_used_gives_its_sequences_to_a_longer_one() -> None:
    lengths = [100, 100, 20]
    rare, often = [[0, 1, 2]] * 3 + [[0, 1]] * 9, [[0, 1, 2]] * 9
    assert [shape.length for shape in planned(rare, lengths, 200)] == [112]
    assert [shape.length for shape in planned(often, lengths, 200)] == [112, 32]


def test_a_row_has_its_tokens_and_what_they_count_in_their_places() -> None:
    shape = RowShape(3, 16, 16)
    sequences = [
        Trajectory([5, 6, 7], [False, True, True]),
        Trajectory([8, 9], [True, False]),
        Trajectory([1, 2, 3, 4], [False, False, False, True]),
    ]
    row = even_rows.build_row(shape, sequences, [0.5, 9.0, 2.0])
    tokens, among, wanted = np.split(row.numbers, [48, 96])
    assert tokens.reshape(3, 16)[:, :4].tolist() == [[5, 6, 7, 0], [8, 9, 0, 0], [1, 2, 3, 4]]
    assert not tokens.reshape(3, 16)[:, 4:].any()
    assert wanted.tolist() == [0, 1, 34] + [0] * 13
    assert tokens[wanted[:3] + 1].tolist() == [6, 7, 4]
    assert row.shares.tolist() == [0.5, 0.5, 2.0] + [0.0] * 13
    assert {place: among[place] for place in np.flatnonzero(among < 16)} == {0: 0, 1: 1, 34: 2}
    assert set(among) == {0, 1, 2, 16}


def test_a_row_of_fewer_sequences_leaves_the_rest_empty() -> None:
    row = even_rows.build_row(RowShape(2, 16, 16), [], [])
    assert row.numbers.tolist() == [0] * 32 + [16] * 32 + [0] * 16
    assert row.shares.tolist() == [0.0] * 16
