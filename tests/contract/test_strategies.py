"""What every strategy must do, run over all of them."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hansa.adapter import Tensors
from hansa.spec import Aggregation
from hansa_server.strategies import STRATEGIES
from hansa_server.strategies.base import Strategy, Update, move
from hansa_server.strategies.mean import mean

SHAPES = {"a": (2, 3), "b": (4, 2)}
values = st.floats(-1e6, 1e6, width=32)
adapters = st.fixed_dictionaries(
    {n: arrays(np.float32, s, elements=values) for n, s in SHAPES.items()}
)
every_strategy = pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=list(STRATEGIES))


class Stream:
    """Updates that can be passed over again, with read-only arrays as the store's are."""

    def __init__(self, updates: list[Tensors]) -> None:
        self._updates = updates

    def __iter__(self) -> Iterator[Update]:
        for position, tensors in enumerate(self._updates):
            for array in tensors.values():
                array.setflags(write=False)
            yield Update(environment=f"e{position}", tensors=tensors)


def test_every_strategy_of_the_spec_is_registered():
    field = Aggregation.model_fields["strategy"].annotation
    assert set(STRATEGIES) == set(field.__args__)


@every_strategy
@settings(max_examples=30, deadline=None)
@given(start=adapters, updates=st.lists(adapters, min_size=1, max_size=5))
def test_equal_members_give_equal_bytes_of_the_right_shape(
    strategy: Strategy, start: Tensors, updates: list[Tensors]
):
    before = {name: array.copy() for name, array in start.items()}
    first = strategy(start, Stream(updates), Aggregation())
    again = strategy(start, Stream(updates), Aggregation())
    for name, shape in SHAPES.items():
        assert first[name].dtype == np.float64
        assert first[name].shape == shape
        assert first[name].tobytes() == again[name].tobytes()
        np.testing.assert_array_equal(start[name], before[name])


@every_strategy
@settings(max_examples=30, deadline=None)
@given(start=adapters, count=st.sampled_from([1, 2, 3, 5, 7]))
def test_members_that_did_not_move_leave_the_adapter_where_it_was(
    strategy: Strategy, start: Tensors, count: int
):
    still = strategy(start, Stream([start] * count), Aggregation())
    moved = move(start, still, 3.0)
    for name in SHAPES:
        np.testing.assert_allclose(moved[name], start[name], rtol=1e-6)


@settings(max_examples=40, deadline=None)
@given(start=adapters, updates=st.lists(adapters, min_size=1, max_size=7))
def test_the_mean_is_numpys(start: Tensors, updates: list[Tensors]):
    result = mean(start, Stream(updates), Aggregation())
    for name in SHAPES:
        expected = np.mean([update[name].astype(np.float64) for update in updates], axis=0)
        np.testing.assert_allclose(result[name], expected, rtol=1e-12, atol=1e-9)


@settings(max_examples=40, deadline=None)
@given(start=adapters, target=adapters, step=st.floats(0.01, 100))
def test_the_step_is_a_line_from_the_start_through_the_aggregate(
    start: Tensors, target: Tensors, step: float
):
    aggregate = {name: array.astype(np.float64) for name, array in target.items()}
    moved = move(start, aggregate, step)
    for name in SHAPES:
        begin = start[name].astype(np.float64)
        expected = begin + step * (target[name] - begin)
        np.testing.assert_allclose(moved[name], expected, rtol=1e-6, atol=1e-3)


@settings(max_examples=40, deadline=None)
@given(start=adapters, target=adapters)
def test_a_step_of_one_is_the_aggregate_to_the_last_bit(start: Tensors, target: Tensors):
    aggregate = {name: array.astype(np.float64) for name, array in target.items()}
    moved = move(start, aggregate, 1.0)
    for name in SHAPES:
        np.testing.assert_array_equal(moved[name], target[name])
