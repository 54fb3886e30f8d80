"""Batches hold every trajectory once an epoch, fit their tokens, and repeat with their seed."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from hansa_client.training import batches

LENGTHS = st.lists(st.integers(1, 60), min_size=1, max_size=40)


@given(LENGTHS, st.integers(16, 200), st.integers(1, 3), st.integers(0, 2**40))
def test_every_trajectory_comes_once_in_each_epoch(
    lengths: list[int], tokens: int, epochs: int, seed: int
) -> None:
    steps = batches.plan_steps(lengths, batch_tokens=tokens, epochs=epochs, max_steps=0, seed=seed)
    assert Counter(i for step in steps for i in step) == dict.fromkeys(range(len(lengths)), epochs)


@given(LENGTHS, st.integers(16, 200), st.integers(0, 2**40))
def test_a_batch_fits_with_its_padding_unless_one_alone_is_too_long(
    lengths: list[int], tokens: int, seed: int
) -> None:
    for step in batches.plan_steps(lengths, batch_tokens=tokens, epochs=1, max_steps=0, seed=seed):
        padded = len(step) * max(lengths[i] for i in step)
        assert padded <= tokens or len(step) == 1


@given(LENGTHS, st.integers(1, 5), st.integers(0, 2**40))
def test_a_cap_takes_the_first_steps_of_the_same_plan(
    lengths: list[int], cap: int, seed: int
) -> None:
    whole = batches.plan_steps(lengths, batch_tokens=64, epochs=2, max_steps=0, seed=seed)
    assert (
        batches.plan_steps(lengths, batch_tokens=64, epochs=2, max_steps=cap, seed=seed)
        == whole[:cap]
    )


def test_epochs_and_seeds_shuffle_differently() -> None:
    plan = batches.plan_steps([10] * 40, batch_tokens=40, epochs=2, max_steps=0, seed=1)
    assert plan[:10] != plan[10:]
    assert plan != batches.plan_steps([10] * 40, batch_tokens=40, epochs=2, max_steps=0, seed=2)


def test_nothing_to_learn_from_takes_no_step() -> None:
    assert batches.plan_steps([], batch_tokens=64, epochs=2, max_steps=0, seed=1) == []
