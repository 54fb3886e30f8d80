"""Updates whose factors are turned: the same product B·A, and a ruined mean of factors."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hansa.adapter import lora
from hansa_server import measure
from tests.unit.hansa_server.rounds import (
    RANK,
    SHAPES,
    full_round,
    later_round,
    refusal_of_maze,
    tensors,
)


def turn(tensors_: lora.Tensors, rotation: Any) -> lora.Tensors:
    """The same product B·A by other factors: R·A, and B times R's inverse."""
    inverse = np.linalg.inv(rotation)
    return {
        name: np.asarray(
            rotation @ array if lora.side(name) == "A" else array @ inverse, np.float32
        )
        for name, array in tensors_.items()
    }


TURNS = {
    "both signs": -np.eye(RANK),
    "one sign of two": np.diag([1.0, -1.0]),
    "rows exchanged": np.eye(RANK)[::-1],
    "a quarter turn": np.array([[0.0, -1.0], [1.0, 0.0]]),
}
FACTORS = ["mean", "weighted-mean", "fedex", "fedavgm", "fedadam", "trimmed-mean", "norm-balanced"]


@pytest.mark.attack(
    by="a silo",
    does="sends (−A, −B), or rotated factors",
    result="refused (`turned`)",
)
@pytest.mark.parametrize("how", TURNS)
@pytest.mark.parametrize("first_round", [True, False], ids=["from the seed", "from an adapter"])
def test_an_update_with_turned_factors_is_refused(how, first_round):
    round_ = full_round() if first_round else later_round()
    sent = turn(tensors(1), TURNS[how])
    for module in lora.target_names(SHAPES):
        a, b = lora.tensor_names(module)
        np.testing.assert_allclose(sent[b] @ sent[a], tensors(1)[b] @ tensors(1)[a], atol=1e-5)
    round_.send("maze", sent)
    assert refusal_of_maze(round_) == "turned"


@pytest.mark.parametrize("strategy", FACTORS)
def test_turned_factors_are_refused_by_all_who_merge_factors(strategy):
    round_ = full_round(aggregation={"strategy": strategy})
    round_.send("maze", turn(tensors(1), -np.eye(RANK)))
    assert refusal_of_maze(round_) == "turned"


@pytest.mark.parametrize("strategy", ["svd", "flora", "regmean"])
def test_who_merges_products_takes_any_factors_of_them(strategy):
    honest, other = (full_round(aggregation={"strategy": strategy}) for _ in range(2))
    other.send("maze", turn(tensors(1), -np.eye(RANK)))
    assert honest.aggregate().refused == other.aggregate().refused == []
    for module in lora.target_names(SHAPES):
        a, b = lora.tensor_names(module)
        expected = honest.result()[b] @ honest.result()[a]
        np.testing.assert_allclose(other.result()[b] @ other.result()[a], expected, atol=1e-4)


@given(st.integers(0, 2**32), st.floats(0.0, 8.0))
@settings(deadline=None, max_examples=60)
def test_training_that_moves_a_many_times_its_length_does_not_turn_it(seed, far):
    """Adam can move A by more than it began with; only its turn against the start is judged."""
    random = np.random.default_rng(seed)
    start = (random.uniform(-1, 1, (8, 512)) / np.sqrt(512)).astype(np.float32)
    change = random.standard_normal(start.shape)
    moved = start + far * np.linalg.norm(start) * change / np.linalg.norm(change)
    assert not turned_a(moved, start)
    assert turned_a(-moved, start)


def turned_a(a: Any, start: Any) -> bool:
    def file(array: Any) -> Any:
        name = min(SHAPES)
        tensors_ = {name: np.asarray(array, np.float32)}
        return SimpleNamespace(layout=tensors_, read=tensors_.__getitem__)

    return bool(measure.find_turned_layer(file(a), file(start)))


def test_an_a_of_nothing_but_zeros_is_not_turned():
    assert not turned_a(np.zeros((2, 4)), np.ones((2, 4)))
    assert not turned_a(np.ones((2, 4)), np.zeros((2, 4)))
