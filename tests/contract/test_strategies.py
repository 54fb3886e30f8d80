"""What every strategy must do, run over all of them; and each against its formula, dense."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hansa.adapter.lora import Tensors
from hansa.api.spec import Aggregation
from hansa.api.strategies import BUILTIN
from hansa_server import contract
from hansa_server.contract import CHECKS, prepare
from tests.support import dense
from tests.support.merging import STRATEGIES, ContractMerge, draw, options_of, run

CASES = contract.SHAPES
every_strategy = pytest.mark.parametrize("strategy", STRATEGIES)
every_shape = pytest.mark.parametrize("shapes", CASES.values(), ids=list(CASES))
every_step = pytest.mark.parametrize("step", [1.0, 0.3, 3.0])

BY_ELEMENT = [
    *dense.FORMULAS,
    "mean",
    "weighted-mean",
    "ffa",
    "rolora",
    "trimmed-mean",
    "krum",
    "multi-krum",
    "norm-balanced",
]
ON_PRODUCTS = ["svd", "flora", "fedex", "regmean"]
OPTIMIZERS = ["fedavgm", "fedadagrad", "fedadam", "fedyogi"]


def case(shapes: Any, count: int = 7) -> tuple[Tensors, list[Tensors]]:
    return contract.make_case(shapes, count)


def close(got: NDArray[Any], expected: NDArray[Any], tolerance: float = 1e-5) -> None:
    scale = float(np.linalg.norm(expected)) or 1.0
    assert float(np.linalg.norm(np.asarray(got, np.float64) - expected)) <= tolerance * scale


def total(outcome: ContractMerge, module: str) -> NDArray[np.float64]:
    return dense.product(outcome.tensors, module)


def test_every_strategy_of_the_spec_is_registered() -> None:
    assert set(BUILTIN) == {*BY_ELEMENT, *ON_PRODUCTS, *OPTIMIZERS, "none"}


@every_strategy
@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS.keys())
def test_a_builtin_strategy_keeps_the_contract(strategy, check) -> None:
    check(prepare(strategy, None))


@every_strategy
@settings(max_examples=5, deadline=None)
@given(count=st.sampled_from([3, 5]), seed=st.integers(0, 99), step=st.sampled_from([0.3, 1.0, 3]))
def test_members_that_did_not_move_leave_the_products_where_they_were(
    strategy, count, seed, step
) -> None:
    shapes = CASES["three layers, rank 4"]
    start = draw(seed, shapes)
    still = run(start, [start] * count, strategy=strategy, server_step=step)
    for module in dense.modules(start):
        close(total(still, module), dense.product(start, module))


@every_shape
@every_step
@pytest.mark.parametrize("strategy", BY_ELEMENT)
def test_a_rule_by_element_is_its_formula(strategy, shapes, step) -> None:
    start, updates = case(shapes)
    options = options_of(strategy, faulty=2)
    got = run(start, updates, strategy=strategy, server_step=step, options=options)
    aggregation = Aggregation(strategy=strategy, server_step=step, options=options)
    origin = dense.vector(start)
    expected = origin + step * (dense.by_element(strategy, start, updates, aggregation) - origin)
    close(dense.vector(got.tensors), expected)
    assert got.frozen == {}


@every_shape
@pytest.mark.parametrize("weights", [[1, 2, 3], [5, 0, 1]])
def test_a_weighted_mean_is_numpys_average(shapes, weights) -> None:
    start, updates = case(shapes, 3)
    got = run(start, updates, strategy="weighted-mean", weights=weights)
    close(dense.vector(got.tensors), dense.mean(start, updates, weights))


@every_shape
@every_step
@pytest.mark.parametrize("weights", [[1, 1, 1], [1, 2, 3]])
def test_svd_is_the_best_adapter_of_its_rank(shapes, step, weights) -> None:
    start, updates = case(shapes, 3)
    rank = next(iter(shapes.values()))[0]
    got = run(start, updates, strategy="svd", server_step=step, weights=weights)
    for module in dense.modules(start):
        exact = dense.mean_product(start, updates, module, step, weights)
        close(total(got, module), dense.best(exact, rank))


@every_shape
@every_step
@pytest.mark.parametrize("with_frozen", [False, True], ids=["at first", "on a frozen part"])
@pytest.mark.parametrize("strategy", ["flora", "fedex"])
def test_exact_strategies_have_the_mean_of_the_products(
    strategy, shapes, step, with_frozen
) -> None:
    start, updates = case(shapes, 3)
    frozen = draw(55, _of_rank(shapes, 5)) if with_frozen else None
    got = run(start, updates, strategy=strategy, server_step=step, frozen=frozen)
    for module in dense.modules(start):
        expected = dense.mean_product(start, updates, module, step, [1, 1, 1])
        if frozen:
            expected = expected + dense.product(frozen, module)
        close(total(got, module), expected)
    assert got.result.loss == 0.0


@every_shape
@pytest.mark.parametrize("strategy", ["flora", "fedex"])
def test_beyond_the_bound_the_frozen_part_is_the_best_of_its_rank(strategy, shapes) -> None:
    start, updates = case(shapes, 5)
    got = run(start, updates, strategy=strategy, options={"maxRank": 3})
    lost = whole = 0.0
    for module in dense.modules(start):
        exact = dense.mean_product(start, updates, module, 1.0, [1] * 5)
        rest = exact - dense.product(got.trained, module)
        close(dense.product(got.frozen, module), dense.best(rest, 3))
        lost += float(np.sum((rest - dense.best(rest, 3)) ** 2))
        whole += float(np.sum(rest**2))
    if got.result.loss:
        assert got.result.loss == pytest.approx(np.sqrt(lost / whole), rel=1e-3, abs=1e-5)
    assert got.result.frozen_rank <= 3


def test_flora_reserves_no_rank_for_a_part_that_has_not_learned() -> None:
    shapes = CASES["three layers, rank 4"]
    start, updates = case(shapes, 3)
    untrained = {n: np.zeros_like(a) if "lora_B" in n else a for n, a in start.items()}
    for origin, old in ((start, 4), (untrained, 0)):
        got = run(origin, updates, strategy="flora", server_step=2.0)
        assert got.result.frozen_rank == 3 * 4 + old


@pytest.mark.parametrize("quiet", [1, 2])
def test_balanced_lengths_are_not_set_by_the_longest_of_few(quiet: int) -> None:
    start, (long, *short) = case(CASES["three layers, rank 4"], 1 + quiet)
    calm = [{n: start[n] + 1e-3 * (u[n] - start[n]) for n in start} for u in short]
    still = [start] * (quiet - 1)
    updates = [{n: a.astype(np.float32) for n, a in u.items()} for u in (long, calm[0], *still)]
    got = dense.vector(run(start, updates, strategy="norm-balanced").tensors) - dense.vector(start)
    moved = dense.vector(updates[1]) - dense.vector(start)
    assert 0 < np.linalg.norm(got) <= 1.01 * np.linalg.norm(moved)


def test_flora_starts_afresh_and_fedex_goes_on_from_the_means() -> None:
    start, updates = case(CASES["three layers, rank 4"], 3)
    stacked = run(start, updates, strategy="flora")
    assert all(not array.any() for n, array in stacked.trained.items() if "lora_B" in n)
    assert stacked.data != run(start, updates, strategy="flora", round_=4).data
    exact = run(start, updates, strategy="fedex")
    close(dense.vector(exact.trained), dense.mean(start, updates, [1, 1, 1]))


@every_shape
@pytest.mark.parametrize("strategy", OPTIMIZERS)
def test_a_server_optimizer_is_its_formula_over_rounds(strategy, shapes) -> None:
    start = draw(100, shapes)
    rounds = [[draw(10 * r + i, shapes) for i in range(3)] for r in range(3)]
    options = options_of(strategy, server_learning_rate=0.01, momentum=0.8)
    fields = {"server_step": 1.5, "options": options}
    now, state = start, None
    for number, updates in enumerate(rounds, start=1):
        got = run(now, updates, state=state, strategy=strategy, round_=number, **fields)
        now, state = got.tensors, got.state
    expected = dense.optimized(strategy, start, rounds, Aggregation(strategy=strategy, **fields))
    close(dense.vector(now), expected)


@every_strategy
def test_a_frozen_part_that_a_strategy_does_not_touch_stays_to_the_last_bit(strategy) -> None:
    shapes = CASES["three layers, rank 4"]
    start, updates = case(shapes)
    frozen = draw(5, _of_rank(shapes, 6))
    got = run(start, updates, strategy=strategy, frozen=frozen)
    if strategy in ("flora", "fedex", "regmean"):
        assert got.result.frozen_rank > 6
        return
    for name, array in frozen.items():
        np.testing.assert_array_equal(got.frozen[name], array)


def test_the_mean_misses_the_mean_of_the_products_and_exact_strategies_do_not() -> None:
    start, updates = case(CASES["three layers, rank 4"], 5)

    def error(strategy: str) -> float:
        got = run(start, updates, strategy=strategy)
        exact = [dense.mean_product(start, updates, m, 1, [1] * 5) for m in dense.modules(start)]
        made = [total(got, module) for module in dense.modules(start)]
        apart = sum(float(np.sum((m - e) ** 2)) for m, e in zip(made, exact, strict=True))
        return float(np.sqrt(apart / sum(float(np.sum(e**2)) for e in exact)))

    assert error("mean") > 0.1
    assert error("svd") > 1e-3
    assert error("flora") < 1e-5
    assert error("fedex") < 1e-5


@pytest.mark.parametrize("poison", [1e3, -1e3, 1e6])
@pytest.mark.parametrize("strategy", ["median", "trimmed-mean", "krum", "multi-krum"])
def test_one_hostile_member_does_not_move_a_robust_rule(strategy, poison) -> None:
    shapes = CASES["three layers, rank 4"]
    start = draw(100, shapes)
    honest = [{n: a + 0.1 * draw(i, shapes)[n] for n, a in start.items()} for i in range(4)]
    hostile = {n: np.full_like(a, poison) for n, a in start.items()}
    got = run(start, [*honest, hostile], strategy=strategy)
    apart = np.linalg.norm(dense.vector(got.tensors) - dense.vector(start))
    assert apart <= max(np.linalg.norm(dense.vector(h) - dense.vector(start)) for h in honest)


def _of_rank(shapes: Any, rank: int) -> Any:
    return {n: (rank, s[1]) if "lora_A" in n else (s[0], rank) for n, s in shapes.items()}
