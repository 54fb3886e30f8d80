"""`serverStep: auto`: as long as the round's updates need, and never longer than their sum."""

from collections.abc import Sequence

import numpy as np
import pytest

from hansa.adapter.lora import Tensors
from hansa.api.strategies import BUILTIN
from tests.support.merging import ContractMerge, draw, make_shapes, run
from tests.unit.hansa_server.rounds import (
    ENVIRONMENTS,
    Round,
    full_round,
    read_manifest,
    tensors,
)

SHAPES = make_shapes(2, (40, 60), (30, 40))
START = draw(1, SHAPES)
LENGTH = sum(array.size for array in START.values())


def moved(*changes: Sequence[float]) -> list[Tensors]:
    """Updates that have moved so from the start, by directions that are at right angles."""
    random = np.random.default_rng(5)
    basis, _ = np.linalg.qr(random.standard_normal((LENGTH, len(changes[0]))))
    return [_away(basis @ np.array(change)) for change in changes]


def _away(change: np.ndarray) -> Tensors:
    made, at = {}, 0
    for name, array in START.items():
        part = change[at : at + array.size].reshape(array.shape)
        made[name] = (array + part).astype(np.float32)
        at += array.size
    return made


def auto(updates: Sequence[Tensors], **settings: object) -> ContractMerge:
    return run(START, updates, server_step="auto", **settings)


@pytest.mark.parametrize(("count", "step"), [(1, 1.0), (2, 1.0), (4, 2.0), (5, 2.5), (7, 3.5)])
def test_updates_at_right_angles_need_a_step_of_half_their_number(count: int, step: float) -> None:
    assert auto(moved(*np.eye(count).tolist())).step == pytest.approx(step, abs=1e-3)


@pytest.mark.parametrize("count", [1, 2, 5, 40])
def test_updates_that_agree_need_a_step_of_one(count: int) -> None:
    made = auto(moved(*[[1.0, 2.0]] * count))
    assert made.step == 1.0


def test_updates_that_agree_in_part_need_a_step_between() -> None:
    """Five of length 1 with a cosine of 0.2: the mean of squares is 1, that of the mean 0.36."""
    shared, own = np.sqrt(0.2), np.sqrt(0.8)
    changes = [[shared, *(own * np.eye(5)[index])] for index in range(5)]
    assert auto(moved(*changes)).step == pytest.approx(1 / (2 * 0.36), abs=1e-3)


def test_the_formula_is_that_of_fedexp_on_any_updates_and_weights() -> None:
    updates, weights = [draw(seed, SHAPES, 0.3) for seed in (2, 3, 4)], [1.0, 2.0, 5.0]
    shares = np.array(weights) / sum(weights)
    changes = np.array(
        [np.concatenate([(u[n].astype(float) - START[n]).ravel() for n in START]) for u in updates]
    )
    wanted = shares @ (changes**2).sum(axis=1) / (2 * np.sum((shares @ changes) ** 2))
    made = auto(updates, strategy="weighted-mean", weights=weights)
    assert made.step == pytest.approx(max(1.0, wanted), abs=1e-3)


def test_the_result_is_what_the_same_number_gives() -> None:
    updates = moved(*np.eye(5).tolist())
    made = auto(updates)
    assert made.data == run(START, updates, server_step=made.step).data


@pytest.mark.parametrize("count", [9, 20, 40])
def test_many_updates_at_right_angles_need_a_step_of_four_at_most(count: int) -> None:
    assert auto(moved(*np.eye(count).tolist())).step == 4.0


@pytest.mark.parametrize("count", [2, 3, 4])
def test_updates_that_cancel_each_other_out_never_need_more_than_their_sum(count: int) -> None:
    """A member can turn the mean round, and so ask for any step."""
    changes = [[1.0, 0.0]] + [[-1.0 / (count - 1), 1e-6]] * (count - 1)
    assert auto(moved(*changes)).step == count
    assert auto([*moved([1.0]), *moved([-1.0])]).step == pytest.approx(2.0, abs=1e-3)


def test_who_has_no_weight_lets_nobody_step_further() -> None:
    updates = moved([1.0, 0.0], [-1.0, 1e-6], [9.0, 9.0])
    assert auto(updates, strategy="weighted-mean", weights=[1.0, 1.0, 0.0]).step <= 2.0


def test_nobody_moved_and_nothing_happens() -> None:
    made = auto([START, START])
    assert made.step == 1.0
    assert all(np.array_equal(made.trained[name], START[name]) for name in START)


def test_order_and_layout_of_the_members_change_nothing() -> None:
    updates = [draw(seed, SHAPES, 0.1) for seed in (2, 3, 4, 5)]
    one = auto(updates)
    assert auto(updates[::-1]).step == one.step
    assert auto(updates, strange=True).step == one.step


@pytest.mark.parametrize("strategy", [name for name, e in BUILTIN.items() if e.is_mean and e.code])
def test_every_strategy_that_takes_a_mean_has_it(strategy: str) -> None:
    half = {"ffa": "B", "rolora": "B"}.get(strategy)
    updates = [
        {n: a if half is None or f"lora_{half}" in n else START[n] for n, a in update.items()}
        for update in moved(*np.eye(6).tolist())
    ]
    made = auto(updates, strategy=strategy)
    assert made.step == pytest.approx(3.0, rel=0.1)
    assert made.data == run(START, updates, strategy=strategy, server_step=made.step).data


def test_balanced_changes_are_measured_as_they_are_merged() -> None:
    changes = [[100.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0, 0, 0, 1.0]]
    assert auto(moved(*changes)).step == pytest.approx(2.0, abs=1e-3)
    one_large = auto([*moved(*changes[:3]), *moved([100.0, 0.0, 0.0, 0.1])])
    balanced = auto(
        [*moved(*changes[:3]), *moved([100.0, 0.0, 0.0, 0.1])], strategy="norm-balanced"
    )
    assert one_large.step != balanced.step


def test_a_round_says_which_step_it_took() -> None:
    for step in (1.0, 2.5):
        fixed = full_round(server_step=step)
        assert fixed.aggregate().server_step == step == read_manifest(fixed).server_step
    round_ = full_round(server_step="auto")
    report = round_.aggregate()
    assert report.server_step == read_manifest(round_).server_step
    assert read_manifest(round_).inputs["aggregation"]["serverStep"] == "auto"
    assert round_.aggregate() == report  # the second time it is read, not computed


def test_a_guards_factor_shortens_the_step_that_fits() -> None:
    whole, half = full_round(server_step="auto"), full_round(server_step="auto")
    step = whole.aggregate().server_step
    settings = half.assignment().settings.model_copy(update={"step_factor": 0.5})
    assert half.aggregate(settings=settings).server_step == pytest.approx(step / 2)
    assert half.store.objects != whole.store.objects


def test_a_refused_member_counts_for_nothing() -> None:
    """What the gate keeps out cannot lengthen the step either."""
    honest = full_round(server_step="auto", aggregation={"max_norm_ratio": 3.0})
    honest.send(ENVIRONMENTS[2], tensors(2, scale=1e6))
    without = Round(environments=ENVIRONMENTS, server_step="auto")
    for index, environment in enumerate(ENVIRONMENTS[:2]):
        without.send(environment, tensors(index))
    assert honest.aggregate().server_step == without.aggregate().server_step
