"""success-sft learns from the agent's tokens alone, and gives the same bytes for the same seed."""

from dataclasses import replace

import pytest
import torch

from hansa.adapter import lora as adapter
from hansa.adapter.lora import Tensors
from hansa.api.spec import Adapter, Training
from hansa_client import learners
from hansa_client.experience import demonstrations
from hansa_client.learners import TrainingSet
from hansa_client.learners.loop import decay_by_cosine
from hansa_client.models import lora
from hansa_client.models.base_model import Base
from hansa_client.training.scoring import Scorer, count_agent_tokens
from hansa_client.trajectory import Sequence, render_all
from hansa_worlds import DEMO_OPTIONS, make

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def lesson(base: Base, start: Tensors) -> TrainingSet:
    """What an expert shows in thirty mazes."""
    world = make("maze", DEMO_OPTIONS["maze"])
    shown = [
        demonstrations._play_expert_task(world, task, base.chat, 1, thoughts=False)
        for task in world.tasks("train")[:30]
    ]
    return TrainingSet(
        sequences=[render_all(episode, 1024)[0] for episode in shown],
        start=start,
        adapter=Adapter(),
        training=Training(learning_rate=3e-3, batch_tokens=512, epochs=2),
        seed=5,
    )


def train(base: Base, lesson: TrainingSet) -> learners.Trained:
    return learners.get("success-sft")(base, lesson, lambda done, total: None)


def test_the_loss_is_that_of_the_agents_tokens_and_no_others(
    base: Base, lesson: TrainingSet
) -> None:
    expected, count = 0.0, 0
    for sequence in lesson.sequences:
        with torch.inference_mode():
            logits = base.model(input_ids=torch.tensor([sequence.tokens])).logits[0].log_softmax(-1)
        for place, own in enumerate(sequence.is_agent):
            if own:
                expected -= float(logits[place - 1, sequence.tokens[place]])
                count += 1
    with torch.inference_mode():
        loss = Scorer(base.model, CPU).loss(lesson.sequences)
    assert count_agent_tokens(lesson.sequences) == count
    assert float(loss) == pytest.approx(expected, rel=1e-4)


def test_the_worlds_tokens_are_context_and_never_a_target(base: Base) -> None:
    agent_first = Sequence([1, 20, 21, 22], [False, True, False, False])
    other_world = Sequence([1, 20, 30, 31], [False, True, False, False])
    with torch.inference_mode():
        losses = [Scorer(base.model, CPU).loss([s]) for s in (agent_first, other_world)]
    assert torch.equal(*losses)


def test_padding_changes_nothing(base: Base, lesson: TrainingSet) -> None:
    with torch.inference_mode():
        alone = sum(float(Scorer(base.model, CPU).loss([s])) for s in lesson.sequences)
        together = Scorer(base.model, CPU).loss(lesson.sequences)
    assert float(together) == pytest.approx(alone, rel=1e-4)


def test_the_same_seed_gives_the_same_bytes(base: Base, lesson: TrainingSet) -> None:
    first, again = train(base, lesson), train(base, lesson)
    assert adapter.encode(first.tensors) == adapter.encode(again.tensors)
    assert first.loss == again.loss
    other = train(base, replace(lesson, seed=6))
    assert adapter.encode(first.tensors) != adapter.encode(other.tensors)


@pytest.mark.slow
def test_dropout_is_seeded_too(base: Base, lesson: TrainingSet) -> None:
    dropping = replace(lesson, adapter=Adapter(dropout=0.2))
    first, again = train(base, dropping), train(base, dropping)
    assert adapter.encode(first.tensors) == adapter.encode(again.tensors)
    assert adapter.encode(first.tensors) != adapter.encode(train(base, lesson).tensors)


def test_training_lowers_the_loss_and_leaves_the_base_alone(
    base: Base, lesson: TrainingSet
) -> None:
    before = {name: tensor.clone() for name, tensor in base.model.state_dict().items()}
    trained = train(base, lesson)
    after = base.model.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert not any(weight.requires_grad for weight in base.model.parameters())
    with torch.inference_mode():
        untrained = Scorer(base.model, CPU).loss(lesson.sequences)
        with lora.merge_adapter(base.model, lesson.adapter, trained.tensors):
            learned = Scorer(base.model, CPU).loss(lesson.sequences)
    assert float(learned) < 0.8 * float(untrained)
    assert trained.loss < float(untrained) / count_agent_tokens(lesson.sequences)


def test_a_cap_limits_the_steps_and_its_own_schedule(base: Base, lesson: TrainingSet) -> None:
    capped = replace(lesson, training=lesson.training.model_copy(update={"max_steps": 2}))
    progress: list[tuple[int, int]] = []
    learners.get("success-sft")(base, capped, lambda done, total: progress.append((done, total)))
    assert progress == [(1, 2), (2, 2)]


def test_the_rate_falls_from_all_to_nothing_without_warm_up() -> None:
    rates = [decay_by_cosine(done, 10) for done in range(10)]
    assert rates[0] == 1.0
    assert rates == sorted(rates, reverse=True)
    assert rates[5] == pytest.approx(0.5)
    assert 0 < rates[-1] < 0.03
