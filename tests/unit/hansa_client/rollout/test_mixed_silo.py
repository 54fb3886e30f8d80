"""Training one half, on top of a frozen part, and held to the start: what strategies ask of it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from hansa.adapter import lora as adapter
from hansa.adapter.lora import Tensors
from hansa.api.spec import Adapter, Aggregation, Training
from hansa.api.strategies import Half
from hansa_client import learners
from hansa_client.experience import demonstrations
from hansa_client.learners import TrainingSet
from hansa_client.models import base_model, lora
from hansa_client.models.base_model import Base
from hansa_client.training.scoring import Scorer
from hansa_client.trajectory import render_all
from hansa_worlds import DEMO_OPTIONS, make
from tests.support.merging import draw


@pytest.fixture(scope="module")
def lesson(base: Base, start: Tensors) -> TrainingSet:
    world = make("maze", DEMO_OPTIONS["maze"])
    tasks = world.tasks("train")[:4]
    shown = [demonstrations._play_expert_task(world, task, base.chat, 1, False) for task in tasks]
    return TrainingSet(
        sequences=[render_all(episode, 512)[0] for episode in shown],
        start=start,
        adapter=Adapter(),
        training=Training(learning_rate=3e-3, batch_tokens=512, epochs=4, max_steps=3),
        seed=5,
    )


def train(base: Base, lesson: TrainingSet) -> Tensors:
    return learners.get("success-sft")(base, lesson, lambda done, total: None).tensors


def extra(start: Tensors, rank: int) -> Tensors:
    """A frozen part for an adapter of these shapes."""
    shapes = {
        n: (rank, a.shape[1]) if adapter.side(n) == "A" else (a.shape[0], rank)
        for n, a in start.items()
    }
    return draw(3, shapes, 0.05)


def by_peft() -> Base:
    return base_model.load("builtin:tiny", base_model.resolve("builtin:tiny"), 1, for_peft=True)


@pytest.mark.parametrize("half", ["A", "B"])
@pytest.mark.parametrize("with_peft", [False, True], ids=["builtin", "PEFT"])
def test_one_half_is_trained_and_the_other_stays_to_the_last_bit(
    base: Base, lesson: TrainingSet, half: Half, with_peft: bool
) -> None:
    learned = replace(lesson, start=train(base, lesson), half=half)  # A alone learns only if B is
    trained = train(by_peft() if with_peft else base, learned)
    for name, array in trained.items():
        assert np.array_equal(array, learned.start[name]) is (adapter.side(name) != half)


@pytest.mark.parametrize(
    "strategy, halves",
    [("mean", ["both"] * 3), ("ffa", ["B"] * 3), ("rolora", ["B", "A", "B"])],
)
def test_strategies_say_which_half_a_round_trains(strategy: str, halves: list[Half]) -> None:
    aggregation = Aggregation.model_validate({"strategy": strategy})
    assert [aggregation.half(round_) for round_ in (1, 2, 3)] == halves


def test_parts_of_a_whole_adapter_are_split_and_add_up(start: Tensors) -> None:
    frozen, trained = extra(start, 5), draw(4, adapter.shapes(start))
    whole = {
        n: np.concatenate([frozen[n], trained[n]], axis=0 if adapter.side(n) == "A" else 1)
        for n in start
    }
    parts = adapter.split(whole, 8)
    for name in start:
        np.testing.assert_array_equal(parts.frozen[name], frozen[name])
        np.testing.assert_array_equal(parts.trained[name], trained[name])
    assert adapter.split(trained, 8) == ({}, trained)


@pytest.mark.parametrize("with_peft", [False, True], ids=["builtin", "PEFT"])
def test_a_frozen_part_belongs_to_the_model_while_it_trains(
    base: Base, lesson: TrainingSet, with_peft: bool
) -> None:
    chosen = by_peft() if with_peft else base
    before = {n: t.clone() for n, t in chosen.model.state_dict().items()}
    frozen = extra(lesson.start, 3)
    trained = train(chosen, replace(lesson, frozen=frozen))
    with lora.merge_adapter(chosen.model, lesson.adapter, frozen):
        expected = train(chosen, lesson)
    assert adapter.encode(trained) == adapter.encode(expected)
    assert adapter.encode(trained) != adapter.encode(train(chosen, lesson))
    after = chosen.model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_the_proximal_term_holds_training_to_its_start(base: Base, lesson: TrainingSet) -> None:
    def moved(proximal: float) -> float:
        training = lesson.training.model_copy(update={"proximal": proximal, "max_steps": 6})
        return adapter.distance(train(base, replace(lesson, training=training)), lesson.start)

    assert moved(1000.0) < moved(1.0) < moved(0.0)


def test_the_proximal_gradient_is_that_of_the_penalty(base: Base, lesson: TrainingSet) -> None:
    from hansa_client.learners.loop import Anchor

    wrapped = lora.attach(base.model, lesson.adapter, lesson.start)
    try:
        weights = [w for w in wrapped.parameters() if w.requires_grad]
        origins = [w.detach().clone() for w in weights]
        anchor = Anchor(weights, 0.5)
        with torch.no_grad():
            for weight in weights:
                weight.add_(0.1)
        Scorer(wrapped, base.device).loss(lesson.sequences[:1]).backward()
        anchor.pull()
        pulled = [w.grad.clone() for w in weights]
        wrapped.zero_grad()
        loss = Scorer(wrapped, base.device).loss(lesson.sequences[:1])
        penalty = sum(((w - o) ** 2).sum() for w, o in zip(weights, origins, strict=True))
        (loss + 0.25 * penalty).backward()
        for weight, got in zip(weights, pulled, strict=True):
            torch.testing.assert_close(got, weight.grad)
    finally:
        lora.detach(wrapped)
