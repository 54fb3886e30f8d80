"""Learners: each makes the agent better where the right answer is known, and repeats itself."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module

import pytest

from hansa import adapter
from hansa.adapter import Tensors
from hansa.spec import Adapter, Experience, Training
from hansa.training import BUILTIN
from hansa_client import learners, seeds
from hansa_client.experience.shards import Shard, ShardHeader
from hansa_client.learners import Lesson, Trained
from hansa_client.models import lora
from hansa_client.models.base_model import Base
from hansa_client.rollout.episodes import play as play_episodes
from hansa_client.rollout.live_episodes import EpisodeJob, Play
from hansa_client.trajectory import Episode
from hansa_worlds import DEMO_OPTIONS, make

WORLD, TASKS, SAMPLES = "wordle", 10, 8
RATES = {
    "success-sft": 5e-3,
    "reward-weighted": 5e-3,
    "dpo": 1.5e-3,
    "grpo": 1.5e-3,
}
HOW = Play(
    temperature=1.0,
    max_length=512,
    batch_episodes=256,
    max_new_tokens=16,
    round=1,
    source="exploration",
)


@dataclass(frozen=True)
class Explored:
    """What a seed's start adapter has played."""

    seed: int
    start: Tensors
    shard: Shard


def play(base: Base, tensors: Tensors, seed: int) -> list[Episode]:
    """Ten words to guess, eight times each."""
    tasks = make(WORLD, DEMO_OPTIONS[WORLD]).tasks("train")[:TASKS]
    jobs = [
        EpisodeJob(t, s, seeds.of_episode(seed, t.id, s)) for t in tasks for s in range(SAMPLES)
    ]
    with lora.merged(base.model, Adapter(), tensors):
        return play_episodes(base, lambda: make(WORLD, DEMO_OPTIONS[WORLD]), jobs, HOW).episodes


def success(base: Base, tensors: Tensors, seed: int) -> float:
    """Measured with other luck than what was explored."""
    played = play(base, tensors, seed + 100)
    return sum(episode.success for episode in played) / len(played)


@pytest.fixture(scope="module")
def explored(base: Base) -> Callable[[int], Explored]:
    """What the start adapter of a seed has played, once for all learners."""
    known: dict[int, Explored] = {}

    def make_one(seed: int) -> Explored:
        if seed not in known:
            start = adapter.start(lora.shapes(base.model, Adapter()), Adapter().rank, seed)
            episodes = play(base, start, seed)
            header = ShardHeader(
                program="1",
                environment=WORLD,
                round=1,
                fingerprint="0" * 64,
                inputs={},
                episodes=len(episodes),
            )
            known[seed] = Explored(seed, start, Shard(header, episodes))
        return known[seed]

    return make_one


def lesson(learner: str, found: Explored, rules: Experience | None = None) -> Lesson:
    choice = learners.chooser(learner)([found.shard], rules or Experience(), 1)
    sequences, weights = choice.rendered(512)
    return Lesson(
        sequences=sequences,
        weights=weights,
        together=choice.together,
        start=found.start,
        adapter=Adapter(),
        training=Training.model_validate(
            {"learner": learner, "learningRate": RATES[learner], "batchTokens": 2048}
        ),
        seed=found.seed,
    )


def train(base: Base, told: Lesson) -> Trained:
    return learners.get(told.training.learner)(base, told, lambda done, total: None)


@pytest.fixture(scope="module")
def score(base: Base, explored: Callable[[int], Explored]) -> Callable[[str, int], float]:
    """Success after a learner's round with a seed, or before any; measured once."""

    @cache
    def measure(learner: str, seed: int) -> float:
        found = explored(seed)
        if learner == "start":
            return success(base, found.start, seed)
        return success(base, train(base, lesson(learner, found)).tensors, seed)

    return measure


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("learner", learners.LEARNERS)
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
    unfiltered = lesson("success-sft", explored(seed), Experience(filter="none"))
    everything = success(base, train(base, unfiltered).tensors, seed)
    assert everything < score("success-sft", seed) - 0.05


@pytest.mark.slow
@pytest.mark.parametrize("learner", learners.LEARNERS)
def test_a_repeated_run_is_equal_bit_for_bit(
    base: Base, explored: Callable[[int], Explored], learner: str
) -> None:
    told = lesson(learner, explored(1))
    short = replace(told, training=told.training.model_copy(update={"max_steps": 3}))
    first, again = train(base, short), train(base, short)
    assert adapter.encode(first.tensors) == adapter.encode(again.tensors)
    assert first.loss == again.loss
    assert {n: a.tobytes() for n, a in first.optimizer.items()} == {
        n: a.tobytes() for n, a in again.optimizer.items()
    }


def test_every_learner_of_the_spec_is_there_and_says_what_it_needs() -> None:
    assert set(BUILTIN) == set(learners.LEARNERS)
    for name, module in learners.LEARNERS.items():
        assert callable(learners.get(name))
        assert callable(learners.chooser(name))
        said = import_module(module).__doc__ or ""
        assert "Of exploration it needs" in said
