"""Strategy `regmean`: each update where its own silo's inputs are."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hansa.adapter import lora
from hansa.adapter.lora import Tensors
from hansa_server.moments import Moments
from hansa_server.strategies.regmean import MemoryBudget, projected
from tests.support import dense
from tests.support.merging import describe_moments, draw, draw_moments, make_shapes, run

SHAPES = {
    "narrow inputs, all directions": make_shapes(4, (9, 7), (16, 24), (5, 128)),
    "wide inputs, some directions": make_shapes(4, (9, 129), (12, 300)),
}
every_shape = pytest.mark.parametrize("shapes", SHAPES.values(), ids=list(SHAPES))


def untrained(shapes: lora.Shapes) -> Tensors:
    start = draw(100, shapes)
    return {n: np.zeros_like(a) if "lora_B" in n else a for n, a in start.items()}


def apart(got: NDArray[Any], expected: NDArray[Any]) -> float:
    return float(np.linalg.norm(got - expected) / np.linalg.norm(expected))


def scaled(own: Tensors, factor: float) -> Tensors:
    return {n: a if n.endswith("vectors") else (a * np.float32(factor)) for n, a in own.items()}


@every_shape
@pytest.mark.parametrize(("count", "rank"), [(1, 8), (2, 1), (5, 64)])
def test_it_is_its_formula_on_whole_matrices(shapes, count: int, rank: int) -> None:
    updates = [draw(i, shapes) for i in range(count)]
    own = [draw_moments(i, shapes, rank, scale=0.5 + i) for i in range(count)]
    got = run(
        untrained(shapes),
        updates,
        own=own,
        strategy="regmean",
        options={"momentsRank": rank, "maxRank": 4096},
    )
    for module in dense.modules(updates[0]):
        expected = dense.regmean(updates, own, module)
        assert apart(dense.product(got.frozen, module), expected) < 1e-6


@every_shape
def test_silos_with_equal_inputs_get_the_mean_of_flora(shapes) -> None:
    start, updates = untrained(shapes), [draw(i, shapes) for i in range(4)]
    own = [draw_moments(1, shapes)] * 4
    got = run(start, updates, own=own, strategy="regmean", options={"maxRank": 4096})
    mean = run(start, updates, strategy="flora", options={"maxRank": 4096})
    for module in dense.modules(start):
        made, expected = (dense.product(each.frozen, module) for each in (got, mean))
        assert apart(made, expected) < 1e-6


@every_shape
def test_a_silo_alone_keeps_its_own_update(shapes) -> None:
    start, update = untrained(shapes), draw(1, shapes)
    got = run(start, [update], strategy="regmean", options={"maxRank": 4096})
    for module in dense.modules(start):
        assert apart(dense.product(got.frozen, module), dense.product(update, module)) < 1e-6


@pytest.mark.parametrize("width", [24, 200])
def test_silos_whose_inputs_have_nothing_in_common_keep_their_own_on_their_inputs(
    width: int,
) -> None:
    shapes = make_shapes(4, (9, width))
    start, updates = untrained(shapes), [draw(i, shapes) for i in range(3)]
    basis = np.linalg.qr(np.random.default_rng(3).standard_normal((width, width)))[0]
    spaces = [basis[:, 6 * i : 6 * i + 6] for i in range(3)]
    own = [describe_moments(["model.layers.0.proj"], space @ space.T) for space in spaces]
    got = run(start, updates, own=own, strategy="regmean", options={"maxRank": 4096})
    (module,) = dense.modules(start)
    for update, space in zip(updates, spaces, strict=True):
        made, expected = dense.product(got.frozen, module), dense.product(update, module)
        assert apart(made @ space, expected @ space) < 5e-3  # what the ridge costs


@every_shape
def test_the_order_of_the_members_changes_no_bit(shapes) -> None:
    """Members are sorted by name: the same ones, named alike, come in the same order."""
    start, updates = untrained(shapes), [draw(i, shapes) for i in range(5)]
    own = [draw_moments(i, shapes) for i in range(5)]
    first = run(start, updates, own=own, strategy="regmean")
    assert first.data == run(start, updates, own=own, strategy="regmean").data


@every_shape
@pytest.mark.parametrize("claim", [1e-6, 1e6, 1e30])
def test_nobody_counts_more_or_less_for_the_size_of_what_it_claims(shapes, claim: float) -> None:
    start, updates = untrained(shapes), [draw(i, shapes) for i in range(4)]
    own = [draw_moments(i, shapes) for i in range(4)]
    loud = run(start, updates, own=[*own[:3], scaled(own[3], claim)], strategy="regmean")
    honest = run(start, updates, own=own, strategy="regmean")
    for module in dense.modules(start):
        made, expected = (dense.product(each.frozen, module) for each in (loud, honest))
        assert apart(made, expected) < 1e-5


@pytest.mark.parametrize("seed", range(20))
def test_one_direction_alone_moves_what_others_put_out_no_further_than_its_update(seed) -> None:
    """On the honest members' own inputs the change stays below the hostile update's own output."""
    random, width, honest = np.random.default_rng(seed), 40, 4
    made = []
    for _ in range(honest):
        inputs = random.standard_normal((80, width)) * np.exp(random.standard_normal(width))
        matrix = inputs.T @ inputs
        made.append(matrix / np.trace(matrix))
    direction = random.standard_normal(width)
    direction /= np.linalg.norm(direction)
    hostile = np.outer(direction, direction)
    rows = [random.standard_normal((3, width)) for _ in range(honest + 1)]
    without = sum(projected(rows[:honest], [_as_moments(matrix) for matrix in made]))
    together = [_as_moments(matrix) for matrix in (*made, hostile)]
    moved = sum(projected(rows, together)) - without
    inputs = sum(made) / honest
    output = np.sqrt(np.trace(moved @ inputs @ moved.T))
    own = np.sqrt(np.trace(rows[-1] @ (inputs + hostile) @ rows[-1].T))
    others = max(np.sqrt(np.trace(row @ inputs @ row.T)) for row in rows[:honest])
    assert output <= own + others


def _as_moments(matrix: NDArray[np.float64]) -> Moments:
    values, vectors = np.linalg.eigh(matrix)
    sizes = np.maximum(values, 0.0)
    return Moments(read=lambda: vectors.T, width=len(vectors), values=sizes, rest=0.0)


def test_layers_together_take_no_more_memory_than_there_is_and_a_larger_one_goes_alone() -> None:
    room, lock, held, too_much = MemoryBudget(10), threading.Lock(), [], []

    def work(needed: int) -> None:
        with room.taken(needed):
            with lock:
                held.append(needed)
                if sum(held) > 10 and held != [needed]:
                    too_much.append(list(held))
            time.sleep(0.005)
            with lock:
                held.remove(needed)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, [4, 4, 4, 20, 4, 20, 10, 1] * 3))
    assert (held, too_much) == ([], [])
