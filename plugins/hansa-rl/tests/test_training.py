"""How dpo and grpo train: the losses at the start, steps in parts, options, whole rounds."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from hansa.adapter import lora
from hansa.adapter.lora import Tensors
from hansa.api.assignment import Assignment
from hansa.api.spec import Adapter, Training
from hansa_client import learners
from hansa_client.learners import Trained, TrainingSet
from hansa_client.models.base_model import Base
from hansa_client.training.scoring import Scorer, count_agent_tokens
from hansa_client.trajectory import Sequence as Trajectory
from hansa_rl.advantage import Advantage
from hansa_rl.preference import Preference
from tests.support.explored import Explored, explore, make_lesson, measure, train
from tests.support.memory_store import MemoryStore
from tests.unit.hansa_client.rounds import manifest, play

LEARNERS = ("dpo", "grpo")
RATE = 1.5e-3


@pytest.fixture(scope="module")
def lesson(start: Tensors) -> TrainingSet:
    """Eight trajectories of six to twenty tokens, the agent's every other."""
    drawn = np.random.default_rng(3)
    sequences = [
        Trajectory(drawn.integers(1, 300, size).tolist(), [place % 2 == 1 for place in range(size)])
        for size in (6, 8, 9, 12, 12, 15, 18, 20)
    ]
    return TrainingSet(
        sequences=sequences,
        weights=[1.0, -1.0] * 4,
        start=start,
        adapter=Adapter(),
        training=Training(learning_rate=1e-3, batch_tokens=400, epochs=3, max_steps=2),
        seed=5,
    )


@pytest.fixture(scope="module")
def explored(base: Base) -> Callable[[int], Explored]:
    """What the start adapter of a seed has played, once for both."""
    return cache(lambda seed: explore(base, seed))


def taught(base: Base, lesson: TrainingSet, learner: str, **options: Any) -> Trained:
    own = replace(lesson, together=2 if learner == "dpo" else 1)
    return learners.get(learner, options)(base, own, lambda done, total: None)


def test_at_the_start_a_pair_is_undecided_and_an_advantage_is_its_own_mean(
    base: Base, lesson: TrainingSet
) -> None:
    scorer, all_ = Scorer(base.model, base.device), list(range(8))
    preference = Preference(lesson, 0.1)
    advantage = Advantage(lesson, clip=0.2, kl_weight=0.04)
    with torch.inference_mode():
        for objective in (preference, advantage):
            objective.begin(scorer)
        undecided = float(preference.loss(scorer, all_)) / preference.size(all_)
        gained = -float(advantage.loss(scorer, all_))
    assert undecided == pytest.approx(np.log(2), rel=1e-4)
    expected = sum(
        weight * count_agent_tokens([sequence])
        for weight, sequence in zip(lesson.weights, lesson.sequences, strict=True)
    )
    assert gained == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_step_in_parts_is_the_step_as_a_whole(
    base: Base, lesson: TrainingSet, learner: str
) -> None:
    parts = lesson.training.model_copy(update={"micro_batch_tokens": 40})
    whole = taught(base, lesson, learner)
    parted = taught(base, replace(lesson, training=parts), learner)
    assert whole.loss == pytest.approx(parted.loss, rel=1e-4)
    moved = lora.distance(whole.tensors, lesson.start)
    assert lora.distance(whole.tensors, parted.tensors) < 0.01 * moved


@pytest.mark.parametrize(
    "learner, options", [("dpo", {"beta": 5}), ("grpo", {"klWeight": 50}), ("grpo", {"clip": 1e-4})]
)
def test_an_option_changes_what_is_trained(
    base: Base, lesson: TrainingSet, learner: str, options: dict[str, Any]
) -> None:
    usual = taught(base, lesson, learner)
    other = taught(base, lesson, learner, **options)
    assert lora.distance(usual.tensors, other.tensors) > 0


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("learner", LEARNERS)
def test_a_learner_raises_success_over_its_start(
    base: Base, explored: Callable[[int], Explored], learner: str, seed: int
) -> None:
    lesson = make_lesson(learner, explored(seed), RATE)
    before = measure(base, explored(seed).start, seed)
    assert measure(base, train(base, lesson).tensors, seed) > before + 0.05


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_round_ends_with_an_update_or_says_that_it_learned_nothing(
    assign: Callable[..., Assignment], learner: str
) -> None:
    store = MemoryStore()
    exploration = {"tasksPerRound": 3, "samplesPerTask": 4, "maxNewTokens": 16}
    training = {"learner": learner, "learningRate": 1e-3, "epochs": 1}
    report = play(store, assign(exploration=exploration, training=training, evaluate=False))
    document = manifest(store)
    assert document.trained is bool(document.counts.kept) is report.trained
    assert set(document.learning.pass_at) == {"1", "2", "4"}
    assert document.learning.skipped <= 3
