"""Wordle as a start adapter plays it, and lessons of it: where learners show what they can."""

from dataclasses import dataclass

from hansa.adapter import lora as adapter
from hansa.adapter.lora import Tensors
from hansa.api.spec import Adapter, Experience, Training
from hansa_client import learners, seeds
from hansa_client.experience.shards import Shard, ShardHeader
from hansa_client.learners import Trained, TrainingSet
from hansa_client.models import lora
from hansa_client.models.base_model import Base
from hansa_client.rollout.episodes import play as play_episodes
from hansa_client.rollout.live_episodes import EpisodeJob, RolloutConfig
from hansa_client.trajectory import Episode
from hansa_worlds import DEMO_OPTIONS, make

WORLD, TASKS, SAMPLES = "wordle", 10, 8
HOW = RolloutConfig(
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
        EpisodeJob(t, s, seeds.derive_episode_seed(seed, t.id, s))
        for t in tasks
        for s in range(SAMPLES)
    ]
    with lora.merge_adapter(base.model, Adapter(), tensors):
        return play_episodes(base, lambda: make(WORLD, DEMO_OPTIONS[WORLD]), jobs, HOW).episodes


def measure(base: Base, tensors: Tensors, seed: int) -> float:
    """Success, with other random numbers than what was explored."""
    played = play(base, tensors, seed + 100)
    return sum(episode.success for episode in played) / len(played)


def explore(base: Base, seed: int) -> Explored:
    """Play with the start adapter of a seed."""
    start = adapter.init_adapter(lora.shapes(base.model, Adapter()), Adapter().rank, seed)
    episodes = play(base, start, seed)
    header = ShardHeader(
        program="1",
        environment=WORLD,
        round=1,
        fingerprint="0" * 64,
        inputs={},
        episodes=len(episodes),
    )
    return Explored(seed, start, Shard(header, episodes))


def make_lesson(
    learner: str, explored: Explored, rate: float, rules: Experience | None = None
) -> TrainingSet:
    """What a learner takes of it."""
    choice = learners.get_chooser(learner)([explored.shard], rules or Experience(), 1)
    sequences, weights, _ = choice.render(512)
    training = {"learner": learner, "learningRate": rate, "batchTokens": 2048}
    return TrainingSet(
        sequences=sequences,
        weights=weights,
        together=choice.together,
        start=explored.start,
        adapter=Adapter(),
        training=Training.model_validate(training),
        seed=explored.seed,
    )


def train(base: Base, lesson: TrainingSet) -> Trained:
    """Let the learner that the lesson names train."""
    return learners.get(lesson.training.learner)(base, lesson, lambda done, total: None)
