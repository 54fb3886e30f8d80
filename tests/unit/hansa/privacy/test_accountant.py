"""The accountant against dp-accounting, whose answers `tools/privacy_golden.py` writes down."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hansa.privacy import accountant

GOLDEN = json.loads(Path(__file__).with_name("golden.json").read_text())


@pytest.mark.parametrize("case", GOLDEN, ids=lambda c: f"{c['rate']}-{c['noise']}-{c['steps']}")
def test_epsilon_is_that_of_dp_accounting_and_never_below_the_exact_one(
    case: dict[str, Any],
) -> None:
    ours = accountant.spent(case["rate"], case["noise"], case["steps"], case["delta"])
    assert ours >= case["pld"]
    assert ours >= case["rdp"] * (1 - 1e-5)  # their orders are finer, so theirs is never more
    # Ours has whole orders only, which costs where there is so little noise that none protects.
    assert ours <= case["rdp"] * (1.1 if case["noise"] >= 0.8 else 1.5)


def test_what_was_not_released_costs_nothing() -> None:
    assert accountant.epsilon(accountant.NOTHING, 1e-5) == 0


def test_costs_of_rounds_add_up_to_those_of_all_their_steps() -> None:
    one = accountant.total([(accountant.step_costs(0.1, 1.5), 40)])
    three = accountant.total([(one, 1), (one, 1), (one, 1)])
    assert accountant.epsilon(three, 1e-5) == pytest.approx(accountant.spent(0.1, 1.5, 120, 1e-5))


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
    noise = accountant.noise_for(rate, steps, epsilon, delta)
    assert noise is not None
    assert accountant.spent(rate, noise, steps, delta) <= epsilon
    if noise > 0.01:
        assert accountant.spent(rate, noise - 3e-4, steps, delta) > epsilon * (1 - 1e-9)


def test_no_noise_is_found_for_what_no_noise_can_keep() -> None:
    assert accountant.noise_for(1.0, 10**6, 1e-3, 1e-12) is None
