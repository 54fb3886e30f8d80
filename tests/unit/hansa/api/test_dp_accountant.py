"""The accountant against dp-accounting, whose answers `tools/privacy_golden.py` writes down."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hansa.api import dp_accountant

GOLDEN = json.loads(Path(__file__).with_name("dp_golden.json").read_text())


@pytest.mark.attack(
    by="a reader of the bucket",
    does=(
        "learns from all updates, evaluations and logs whether a silo had a certain task, under "
        "`spec.privacy`"
    ),
    result="at most (ε, δ): a task moves a step's sum by at most the clip, and noise covers it",
)
@pytest.mark.parametrize("case", GOLDEN, ids=lambda c: f"{c['rate']}-{c['noise']}-{c['steps']}")
def test_epsilon_is_that_of_dp_accounting_and_never_below_the_exact_one(
    case: dict[str, Any],
) -> None:
    ours = dp_accountant.spent_epsilon(case["rate"], case["noise"], case["steps"], case["delta"])
    assert ours >= case["pld"]
    assert ours >= case["rdp"] * (1 - 1e-5)  # their orders are finer, so theirs is never more
    # Ours has whole orders only, which costs where there is so little noise that none protects.
    assert ours <= case["rdp"] * (1.1 if case["noise"] >= 0.8 else 1.5)


def test_what_was_not_released_costs_nothing() -> None:
    assert dp_accountant.epsilon(dp_accountant.sum_costs([]), 1e-5) == 0


def test_costs_of_rounds_add_up_to_those_of_all_their_steps() -> None:
    one = dp_accountant.sum_costs([(dp_accountant.step_costs(0.1, 1.5), 40)])
    three = dp_accountant.sum_costs([(one, 1), (one, 1), (one, 1)])
    assert dp_accountant.epsilon(three, 1e-5) == pytest.approx(
        dp_accountant.spent_epsilon(0.1, 1.5, 120, 1e-5)
    )


@settings(max_examples=8, deadline=None)
@given(
    rate=st.floats(0.01, 1),
    steps=st.integers(1, 2000),
    epsilon=st.floats(0.2, 50),
    delta=st.floats(1e-9, 1e-2),
)
def test_the_noise_found_is_enough_and_hardly_more(
    rate: float, steps: int, epsilon: float, delta: float
) -> None:
    noise = dp_accountant.find_noise(rate, steps, epsilon, delta)
    assert noise is not None
    assert dp_accountant.spent_epsilon(rate, noise, steps, delta) <= epsilon
    if noise > 0.01:
        assert dp_accountant.spent_epsilon(rate, noise - 3e-4, steps, delta) > epsilon * (1 - 1e-9)


def test_no_noise_is_found_for_what_no_noise_can_keep() -> None:
    assert dp_accountant.find_noise(1.0, 10**6, 1e-3, 1e-12) is None
