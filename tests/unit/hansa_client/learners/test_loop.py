"""The training loop: parts that fit, memory that runs out, losses that are no numbers, momentum."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hansa.adapter import lora
from hansa.adapter.lora import Tensors
from hansa.api import bucket_keys
from hansa.api.assignment import Assignment
from hansa.api.bucket_documents import StartAdapter
from hansa.api.learners import BUILTIN
from hansa.api.spec import Adapter, Training
from hansa.core.errors import Corrupt, Diverged
from hansa.core.exits import Exit
from hansa_client import learners
from hansa_client.experience import optimizer_state
from hansa_client.learners import Trained, TrainingSet, loop
from hansa_client.learners.reward_weighted import Weighted
from hansa_client.learners.success_sft import Imitation
from hansa_client.models.base_model import Base
from hansa_client.training import batches
from hansa_client.training.scoring import Scorer, count_agent_tokens
from hansa_client.trajectory import Sequence as Trajectory
from tests.support.memory_store import MemoryStore


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
        training=Training(learning_rate=1e-3, batch_tokens=400, epochs=3),
        seed=5,
    )


def changed(lesson: TrainingSet, **fields: object) -> TrainingSet:
    return replace(lesson, training=lesson.training.model_copy(update=fields))


def train(base: Base, lesson: TrainingSet) -> Trained:
    return learners.get(lesson.training.learner)(base, lesson, lambda done, total: None)


def assert_close(one: Trained, other: Trained, start: Tensors) -> None:
    """Equal up to the order of sums: AdamW makes much of a gradient that is nearly zero."""
    assert one.loss == pytest.approx(other.loss, rel=1e-4)
    moved = lora.distance(one.tensors, start)
    assert lora.distance(one.tensors, other.tensors) < 0.01 * moved


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=20),
    st.integers(1, 2),
    st.integers(0, 300),
)
def test_parts_hold_a_step_in_order_and_fit_unless_one_alone_is_too_long(
    lengths: list[int], together: int, room: int
) -> None:
    step = list(range(len(lengths) * together))
    parts = batches.split_step(step, [n for n in lengths for _ in range(together)], together, room)
    assert [index for part in parts for index in part] == step
    for part in parts:
        assert len(part) % together == 0
        padded = batches.count_padded_tokens(part, [n for n in lengths for _ in range(together)])
        assert not room or padded <= room or len(part) == together


@pytest.mark.parametrize("learner", BUILTIN)
def test_a_step_in_parts_is_the_step_as_a_whole(
    base: Base, lesson: TrainingSet, learner: str
) -> None:
    whole = changed(lesson, learner=learner, max_steps=2)
    parted = changed(whole, micro_batch_tokens=40)
    assert_close(train(base, whole), train(base, parted), lesson.start)


class Narrow(Imitation):
    """A model whose memory holds so many tokens of a part."""

    def __init__(self, lesson: TrainingSet, room: int) -> None:
        super().__init__(lesson)
        self.room = room
        self.tried: list[int] = []

    def loss(self, scorer: Scorer, part: Sequence[int]) -> torch.Tensor:
        found = super().loss(scorer, part)
        self.tried.append(batches.count_padded_tokens(part, [len(s) for s in self._sequences]))
        if self.tried[-1] > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return found


def test_where_memory_runs_out_the_parts_are_halved_and_training_goes_on(
    base: Base, lesson: TrainingSet
) -> None:
    narrow = Narrow(lesson, 50)
    trained = loop.train(base, lesson, lambda done, total: None, narrow)
    assert_close(trained, train(base, lesson), lesson.start)
    assert narrow.tried[:3] == [160, 60, 27]  # all, then at most 80, then at most 30
    assert trained.micro_batch_tokens == 30
    assert max(narrow.tried[3:]) <= 50
    assert train(base, lesson).micro_batch_tokens == 0


def test_memory_that_a_larger_row_of_a_later_step_takes_is_found_by_halving_that(
    base: Base, lesson: TrainingSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recording has room for the largest row to come, whatever the first step is."""
    one, rest = lesson.sequences[-1], lesson.sequences[:4]
    short = changed(replace(lesson, sequences=[one, *rest], weights=[1.0] * 5), batch_tokens=50)
    seeds = (replace(short, seed=seed) for seed in range(50))
    training_set = next(each for each in seeds if each.plan_steps()[0] == [0])
    expected: list[int] = []

    def expect(_: Scorer, rows: Sequence[Sequence[int]]) -> None:
        expected.append(max(len(row) * max(row) for row in rows))

    class Recording(Imitation):
        def loss(self, scorer: Scorer, part: Sequence[int]) -> torch.Tensor:
            if expected[-1] > 30:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return super().loss(scorer, part)

    monkeypatch.setattr(Scorer, "expect", expect)
    trained = loop.train(base, training_set, lambda done, total: None, Recording(training_set))
    assert 0 < trained.micro_batch_tokens <= 30 < expected[0]


def test_what_the_start_adapter_finds_likely_is_asked_for_in_parts_that_fit(
    base: Base, lesson: TrainingSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer, logprobs = Scorer(base.model, base.device), Scorer.logprobs
    tried: list[int] = []

    def narrow(own: Scorer, sequences: Sequence[Trajectory]) -> tuple[torch.Tensor, torch.Tensor]:
        tried.append(len(sequences) * max(map(len, sequences)))
        if tried[-1] > 50:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return logprobs(own, sequences)

    with torch.inference_mode():
        free = scorer.reference_logprobs(lesson.sequences, 400)
        monkeypatch.setattr(Scorer, "logprobs", narrow)
        found = scorer.reference_logprobs(lesson.sequences, 400)
        for one, other in zip(found, free, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
        assert max(tried) > 50
        with pytest.raises(torch.OutOfMemoryError):
            scorer.reference_logprobs(
                [lesson.sequences[0]] * 60 + [Trajectory([1] * 60, [True] * 60)], 400
            )


def test_an_example_that_alone_is_too_large_fails(base: Base, lesson: TrainingSet) -> None:
    with pytest.raises(torch.OutOfMemoryError):
        loop.train(base, lesson, lambda done, total: None, Narrow(lesson, 10))
    assert not any(weight.requires_grad for weight in base.model.parameters())


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_ends_training_with_a_name(
    base: Base, lesson: TrainingSet, bad: float
) -> None:
    class Broken(Imitation):
        def loss(self, scorer: Scorer, part: Sequence[int]) -> torch.Tensor:
            return super().loss(scorer, part) * bad

    before = {name: weight.clone() for name, weight in base.model.state_dict().items()}
    with pytest.raises(
        Diverged, match=r"^spec\.training\.learningRate: got 0\.001, .* step 1 of 3"
    ):
        loop.train(base, lesson, lambda done, total: None, Broken(lesson))
    assert Diverged("").exit is Exit.TRAINING_DIVERGED
    after = base.model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_chances_are_those_that_the_loss_is_made_of(base: Base, lesson: TrainingSet) -> None:
    scorer = Scorer(base.model, base.device)
    with torch.inference_mode():
        logprobs, rows = scorer.logprobs(lesson.sequences)
        assert float(-logprobs.sum()) == pytest.approx(float(scorer.loss(lesson.sequences)))
        alone = scorer.reference_logprobs(lesson.sequences, 64)
    assert len(logprobs) == count_agent_tokens(lesson.sequences)
    for row, expected in enumerate(alone):
        torch.testing.assert_close(logprobs[rows == row], expected, rtol=1e-4, atol=1e-4)


def test_kept_moments_change_the_next_round_and_are_restored_to_the_bit(
    base: Base, lesson: TrainingSet
) -> None:
    first = train(base, lesson)
    fresh = train(base, lesson)
    kept = train(base, replace(lesson, optimizer=first.optimizer))
    assert any((fresh.tensors[n] != kept.tensors[n]).any() for n in fresh.tensors)
    steps = {float(v[0]) for n, v in kept.optimizer.items() if n.endswith(".steps")}
    assert steps == {2.0 * len(lesson.plan_steps())}


def test_a_half_that_rests_keeps_its_moments_for_its_own_round(
    base: Base, lesson: TrainingSet
) -> None:
    first = train(base, replace(lesson, half="B"))
    second = train(base, replace(lesson, half="A", start=first.tensors, optimizer=first.optimizer))
    third = replace(lesson, half="B", start=second.tensors, optimizer=second.optimizer)
    steps = {float(v[0]) for n, v in train(base, third).optimizer.items() if n.endswith(".steps")}
    assert steps == {1.0 * len(lesson.plan_steps()), 2.0 * len(lesson.plan_steps())}


def test_what_earned_little_counts_little_also_where_it_is_alone_in_a_step(
    base: Base, lesson: TrainingSet
) -> None:
    lesson_ = changed(lesson, learner="reward-weighted", batch_tokens=1, max_steps=8)
    rich = replace(lesson_, weights=[1.0] * 8)
    poor = replace(lesson_, weights=[1.0, 0.01] * 4)
    for objective in (Weighted(rich), Weighted(poor)):
        sizes = [objective.size([i]) / count_agent_tokens([lesson.sequences[i]]) for i in range(8)]
        assert sizes == pytest.approx([sizes[0]] * 8)
    assert Weighted(rich).size([0, 1]) == count_agent_tokens(lesson.sequences[:2])
    assert lora.distance(train(base, rich).tensors, train(base, poor).tensors) > 1e-4


def test_momentum_is_kept_in_the_private_store_for_the_next_round(
    assign: Callable[..., Assignment],
) -> None:
    store, keep = MemoryStore(), {"optimizerState": "keep"}
    state = {"w.mean": np.ones(3, dtype=np.float32), "w.steps": np.ones(1, dtype=np.float32)}
    first = assign(training=keep, experience_storage={"bucket": "secret", "prefix": "mine"})
    optimizer_state.store(store, first, state)
    assert list(store.objects) == ["mine/experience/maze/optimizer/00001.safetensors"]
    assert optimizer_state.find(store, first) is None  # a repeated round starts as it did
    later = first.model_copy(update={"round": 3, "start": StartAdapter(round=2, sha256="a" * 64)})
    found = optimizer_state.find(store, later)  # this silo has not trained in round 2
    assert found is not None
    assert {n: a.tolist() for n, a in found.items()} == {"w.mean": [1, 1, 1], "w.steps": [1]}
    store.objects["mine/experience/maze/optimizer/00002.safetensors"] = b"else"
    with pytest.raises(Corrupt, match=r"00002\.safetensors: expected an optimizer's state"):
        optimizer_state.find(store, later)


@pytest.mark.parametrize(
    "start, deleted, expected",
    [
        pytest.param(3, [], 3, id="the last round's"),
        pytest.param(
            1, [], 1, id="after the guard went back: those of the adapter it went back to"
        ),
        pytest.param(0, [], None, id="back at the base: none"),
        pytest.param(3, [3], 2, id="deleted by the bucket's owner: older ones"),
        pytest.param(3, [1, 2, 3], None, id="all deleted: none"),
    ],
)
def test_moments_are_those_of_the_start_adapter(
    assign: Callable[..., Assignment], start: int, deleted: list[int], expected: int | None
) -> None:
    store, keep = MemoryStore(), {"optimizerState": "keep"}
    for round_ in (1, 2, 3):
        state = {"w.steps": np.full(1, round_, dtype=np.float32)}
        optimizer_state.store(store, assign(training=keep, round=round_), state)
    for round_ in deleted:
        del store.objects[bucket_keys.optimizer_state("run", "maze", round_)]
    begin = StartAdapter(round=start, sha256="a" * 64 if start else "")
    found = optimizer_state.find(store, assign(training=keep, round=4, start=begin))
    assert (int(found["w.steps"][0]) if found else None) == expected


def test_fresh_moments_are_neither_kept_nor_found(assign: Callable[..., Assignment]) -> None:
    store = MemoryStore()
    optimizer_state.store(store, assign(), {"w": np.ones(3, dtype=np.float32)})
    assert not store.objects
    assert optimizer_state.find(store, assign(round=2)) is None
