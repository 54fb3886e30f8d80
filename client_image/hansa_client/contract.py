"""The contract of all learners, as checks that run over any of them: yours too.

    pytest -p hansa.manifests.contract --pyargs hansa.manifests.contract --learner NAME

A check raises LearnerContractError with what is wrong. The builtin model plays a few words of
wordle once, and every check trains on that, also for learners of other kinds of worlds.
"""

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import cache

from hansa.adapter import lora as adapter
from hansa.adapter.lora import Tensors
from hansa.api.spec import Adapter, Experience, Training
from hansa.api.strategies import Half
from hansa.core.errors import HansaError
from hansa_client import learners
from hansa_client.experience.shards import Shard, ShardHeader
from hansa_client.learners import Choice, Trained, TrainingSet
from hansa_client.models.base_model import Base
from hansa_client.trajectory import Episode
from hansa_worlds import DEMO_OPTIONS, make

WORLD, TASKS, SAMPLES = "wordle", 6, 6
MODEL = "builtin:tiny"
LONGEST = 512
STEPS = 3
"""Optimizer steps of a training: enough to see whether it repeats itself."""


class LearnerContractError(Exception):
    """A learner breaks the contract of hansa_client.learners."""


def _require(kept: bool, sentence: str) -> None:
    if not kept:
        raise LearnerContractError(sentence)


@dataclass(frozen=True)
class LearnerFixture:
    """A base model, and a small experience to train on."""

    base: Base
    start: Tensors
    shards: list[Shard]


@cache
def _play_fixture() -> LearnerFixture:
    """Demonstrations, and an explored round with successes and failures."""
    from hansa_client.models import base_model, lora
    from hansa_client.rollout.episodes import play
    from hansa_client.rollout.live_episodes import RolloutConfig
    from hansa_client.rollout.tasks import choose_held_out_jobs

    base = base_model.load(MODEL, base_model.resolve(MODEL), 1)
    start = adapter.init_adapter(lora.shapes(base.model, Adapter()), Adapter().rank, 1)
    tasks = make(WORLD, DEMO_OPTIONS[WORLD]).tasks("train")[:TASKS]
    jobs = choose_held_out_jobs(tasks, TASKS, 1, SAMPLES)
    how = RolloutConfig(
        temperature=1.0,
        max_length=LONGEST,
        batch_episodes=64,
        max_new_tokens=16,
        round=1,
        source="exploration",
    )
    with lora.merge_adapter(base.model, Adapter(), start):
        episodes = play(base, lambda: make(WORLD, DEMO_OPTIONS[WORLD]), jobs, how).episodes
    first = {"source": "demonstration", "round": 0}
    shown = [each.model_copy(update=first) for each in episodes if each.success][:2]
    return LearnerFixture(base, start, [_make_shard(0, shown), _make_shard(1, episodes)])


def _make_shard(round_: int, episodes: list[Episode]) -> Shard:
    header = ShardHeader(
        program="1",
        environment=WORLD,
        round=round_,
        fingerprint="0" * 64,
        inputs={},
        episodes=len(episodes),
    )
    return Shard(header, episodes)


def _choose(training: Training, shards: list[Shard], rules: Experience | None = None) -> Choice:
    return learners.get_chooser(training.learner, training.options)(
        shards, rules or Experience(), 1
    )


def _make_training_set(training: Training, half: Half = "both") -> TrainingSet:
    played = _play_fixture()
    choice = _choose(training, played.shards)
    sequences, weights, _ = choice.render(LONGEST)
    wins = sum(episode.success for shard in played.shards for episode in shard.episodes)
    _require(bool(sequences), f"it chose nothing of {TASKS * SAMPLES} episodes, {wins} successes")
    return TrainingSet(
        sequences=sequences,
        weights=weights,
        together=choice.together,
        start=played.start,
        half=half,
        adapter=Adapter(),
        training=training,
        seed=7,
    )


def _train(lesson: TrainingSet, progress: Callable[[int, int], None] | None = None) -> Trained:
    train = learners.get(lesson.training.learner, lesson.training.options)
    return train(_play_fixture().base, lesson, progress or (lambda done, total: None))


def a_choice_repeats_itself(training: Training) -> None:
    """The same shards give the same episodes in the same order, and are left as they were."""
    shards = _play_fixture().shards
    before = deepcopy(shards)
    first, again = _choose(training, shards), _choose(training, before)
    _require(first == again, "two choices of the same shards differ")
    _require(shards == before, "choosing changes the shards")


def a_choice_is_of_what_is_there(training: Training) -> None:
    """Every episode is one of the silo's, and its weight is a number."""
    shards = _play_fixture().shards
    choice = _choose(training, shards)
    known = [episode for shard in shards for episode in shard.episodes]
    _require(
        all(each in known for each in choice.episodes), "it chose an episode of its own making"
    )
    _require(all(map(math.isfinite, choice.weights)), "a weight is not a finite number")
    groups = len(choice.episodes) // choice.together
    _require(groups * choice.together == len(choice.episodes), "an example is not whole")


def nothing_to_learn_from_is_no_error(training: Training) -> None:
    """Of an empty experience, and of failures alone, it may choose nothing; it never raises."""
    failed = [e for shard in _play_fixture().shards for e in shard.episodes if not e.success]
    for shards in ([], [_make_shard(0, [])], [_make_shard(0, []), _make_shard(1, failed)]):
        choice = _choose(training, shards)
        least = len(choice.episodes) <= sum(len(shard.episodes) for shard in shards)
        _require(least, "it chose more than there is")


def training_repeats_itself_bit_for_bit(training: Training) -> None:
    """The same lesson gives the same bytes, and progress that ends with all steps done."""
    lesson = _make_training_set(training)
    steps: list[tuple[int, int]] = []
    first = _train(lesson, lambda done, total: steps.append((done, total)))
    again = _train(lesson)
    same = adapter.encode(first.tensors) == adapter.encode(again.tensors)
    _require(same, "two trainings of one lesson differ")
    _require(first.loss == again.loss and math.isfinite(first.loss), "the loss differs")
    _require(bool(steps) and steps[-1][0] == steps[-1][1], f"its progress ends with {steps[-1:]}")


def what_it_trains_is_an_adapter_of_the_same_shapes(training: Training) -> None:
    """With values that are numbers, and others than the start's."""
    lesson = _make_training_set(training)
    made = _train(lesson).tensors
    got, wanted = adapter.shapes(made), adapter.shapes(lesson.start)
    _require(got == wanted, "its tensors have other names or shapes than the start's")
    _require(adapter.is_finite(made), "a weight is not a finite number")
    _require(adapter.distance(made, lesson.start) > 0, "it trained nothing")


def the_base_model_and_the_start_stay_as_they_were(training: Training) -> None:
    """The next lesson of the same process starts from the same place."""
    base, lesson = _play_fixture().base, _make_training_set(training)
    weights = {n: v.detach().clone() for n, v in base.model.state_dict().items()}
    start = adapter.encode(lesson.start)
    _train(lesson)
    after = base.model.state_dict()
    _require(after.keys() == weights.keys(), "it leaves something in the base model")
    changed = [name for name, value in weights.items() if not value.equal(after[name])]
    _require(not changed, f"it changes the base model: {changed[:2]}")
    _require(adapter.encode(lesson.start) == start, "it changes the start adapter")


def the_half_that_is_not_trained_stays(training: Training) -> None:
    """Where a round trains B alone, or A (ffa, rolora), the other stays, to the last bit."""
    halves: tuple[Half, ...] = ("B", "A")
    for half in halves:
        lesson = _make_training_set(training, half)
        made = _train(lesson).tensors
        kept = [name for name in made if adapter.side(name) != half]
        same = all((made[name] == lesson.start[name]).all() for name in kept)
        _require(same, f"it trains more than {half} in a round of {half}: updates are refused")


def unknown_options_are_refused(training: Training) -> None:
    """An option that nobody reads is an error with its name."""
    wrong = {**(training.options or {}), "noSuchOption": 1}
    try:
        learners.get(training.learner, wrong)
    except HansaError as error:
        _require("noSuchOption" in error.message, f"the refusal is: {error.message}")
    else:
        raise LearnerContractError("options.noSuchOption was taken")


def prepare(name: str, options: dict[str, object] | None) -> Training:
    """The settings that the checks take; an error where there is no such learner."""
    learners.get(name, options)
    return Training(
        learner=name,
        options=options,
        learning_rate=1e-3,
        batch_tokens=1024,
        max_length=LONGEST,
        epochs=1,
        max_steps=STEPS,
    )


CHECKS: dict[str, Callable[[Training], None]] = {
    check.__name__.replace("_", " "): check
    for check in (
        a_choice_repeats_itself,
        a_choice_is_of_what_is_there,
        nothing_to_learn_from_is_no_error,
        training_repeats_itself_bit_for_bit,
        what_it_trains_is_an_adapter_of_the_same_shapes,
        the_base_model_and_the_start_stay_as_they_were,
        the_half_that_is_not_trained_stays,
        unknown_options_are_refused,
    )
}
