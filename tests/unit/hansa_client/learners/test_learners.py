"""Learners: each makes the agent better where the right answer is known, and repeats itself."""

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from hansa.adapter import lora as adapter
from hansa.api.learners import BUILTIN
from hansa.api.spec import Experience
from hansa_client import learners
from hansa_client.learners import plugin
from hansa_client.models.base_model import Base
from tests.support.explored import Explored, explore, make_lesson, measure, train

RATE = 5e-3


@pytest.fixture(scope="module")
def explored(base: Base) -> Callable[[int], Explored]:
    """What the start adapter of a seed has played, once for all learners."""
    return cache(lambda seed: explore(base, seed))


@pytest.fixture(scope="module")
def score(base: Base, explored: Callable[[int], Explored]) -> Callable[[str, int], float]:
    """Success after a learner's round with a seed, or before any; measured once."""

    @cache
    def score(learner: str, seed: int) -> float:
        if learner == "start":
            return measure(base, explored(seed).start, seed)
        lesson = make_lesson(learner, explored(seed), RATE)
        return measure(base, train(base, lesson).tensors, seed)

    return score


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("learner", BUILTIN)
def test_a_learner_raises_success_over_its_start(
    score: Callable[[str, int], float], learner: str, seed: int
) -> None:
    assert score(learner, seed) > score("start", seed) + 0.05


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_without_its_filter_imitation_is_worse(
    base: Base,
    explored: Callable[[int], Explored],
    score: Callable[[str, int], float],
    seed: int,
) -> None:
    unfiltered = make_lesson("success-sft", explored(seed), RATE, Experience(filter="none"))
    everything = measure(base, train(base, unfiltered).tensors, seed)
    assert everything < score("success-sft", seed) - 0.05


@pytest.mark.slow
@pytest.mark.parametrize("learner", BUILTIN)
def test_a_repeated_run_is_equal_bit_for_bit(
    base: Base, explored: Callable[[int], Explored], learner: str
) -> None:
    lesson = make_lesson(learner, explored(1), RATE)
    short = replace(lesson, training=lesson.training.model_copy(update={"max_steps": 3}))
    first, again = train(base, short), train(base, short)
    assert adapter.encode(first.tensors) == adapter.encode(again.tensors)
    assert first.loss == again.loss
    assert {n: a.tobytes() for n, a in first.optimizer.items()} == {
        n: a.tobytes() for n, a in again.optimizer.items()
    }


def test_every_learner_of_the_spec_is_there_and_says_what_it_needs() -> None:
    for name in BUILTIN:
        assert callable(learners.get(name))
        assert callable(learners.get_chooser(name))
        said = sys.modules[type(plugin.make(name)).__module__].__doc__ or ""
        assert "Of exploration it needs" in said
