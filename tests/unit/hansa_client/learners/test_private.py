"""DP-SGD: what one unit can change, how it is drawn, and the noise it hides in."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hansa.adapter import lora as adapter
from hansa.adapter.lora import Tensors
from hansa.api.spec import Adapter, Training
from hansa_client import learners
from hansa_client.learners import TrainingSet, loop
from hansa_client.learners.private import PrivateRun, Protection, add_clipped
from hansa_client.learners.success_sft import Imitation
from hansa_client.models import lora
from hansa_client.models.base_model import Base
from hansa_client.privacy import Stream
from hansa_client.training.scoring import Scorer
from hansa_client.trajectory import Sequence as Trajectory

CLIP = 0.3
SECRET = bytes(range(32))

Values = st.floats(width=32, allow_nan=True, allow_infinity=True)


def protection(**changes: Any) -> Protection:
    given: dict[str, Any] = {
        "units": [[0, 1], [2], [3, 4, 5]],
        "rate": 0.5,
        "steps": 4,
        "clip": CLIP,
        "noise": 1.0,
        "divisor": 3.0,
        "stream": Stream(SECRET, "training", "inputs"),
    }
    return Protection(**{**given, **changes})


@pytest.fixture(scope="module")
def lesson(start: Tensors) -> TrainingSet:
    drawn = np.random.default_rng(3)
    sequences = [
        Trajectory(drawn.integers(1, 300, size).tolist(), [place % 2 == 1 for place in range(size)])
        for size in (6, 8, 9, 12, 15, 18)
    ]
    return TrainingSet(
        sequences=sequences,
        start=start,
        adapter=Adapter(),
        training=Training(learning_rate=1e-3, max_steps=4),
        seed=5,
        tasks=["a", "a", "b", "c", "c", "c"],
        private=protection(),
    )


def train(base: Base, lesson: TrainingSet) -> bytes:
    learn = learners.get(lesson.training.learner)
    return adapter.encode(learn(base, lesson, lambda done, total: None).tensors)


@pytest.mark.attack(
    by="a reader of the bucket",
    does=(
        "learns from all updates, evaluations and logs whether a silo had a certain task, under "
        "`spec.privacy`"
    ),
    result="at most (ε, δ): a task moves a step's sum by at most the clip, and noise covers it",
)
@settings(max_examples=200, deadline=None)
@given(
    gradients=st.lists(
        st.tuples(
            st.lists(Values, min_size=3, max_size=3), st.lists(Values, min_size=2, max_size=2)
        ),
        min_size=1,
        max_size=6,
    ),
    clip=st.floats(1e-3, 10),
    data=st.data(),
)
def test_leaving_one_trajectory_out_moves_a_steps_sum_by_at_most_the_clip(
    gradients: list[tuple[list[float], list[float]]], clip: float, data: st.DataObject
) -> None:
    left = data.draw(st.integers(0, len(gradients) - 1))

    def total(kept: list[tuple[list[float], list[float]]]) -> torch.Tensor:
        sums = [torch.zeros(3, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)]
        for parts in kept:
            add_clipped(sums, [torch.tensor(part) for part in parts], clip)
        return torch.cat(sums)

    moved = total(gradients) - total(gradients[:left] + gradients[left + 1 :])
    assert torch.isfinite(moved).all()
    assert float(moved.norm()) <= clip * (1 + 1e-12)


def with_run(base: Base, lesson: TrainingSet, look: Callable[[PrivateRun], Any]) -> Any:
    wrapped = lora.attach(base.model, lesson.adapter, lesson.start)
    lora.train_only(wrapped, "both")
    try:
        run = loop._make_run(wrapped, Scorer(wrapped, base.device), lesson, Imitation(lesson))
        assert isinstance(run, PrivateRun)
        return look(run)
    finally:
        lora.detach(wrapped)


def test_leaving_one_task_out_moves_the_models_own_sum_by_at_most_the_clip(
    base: Base, lesson: TrainingSet
) -> None:
    def look(run: PrivateRun) -> None:
        everybody = run.add_up([0, 2, 4])
        for left_out in ([2, 4], [0, 4], [0, 2]):
            rest = run.add_up(left_out)
            moved = torch.cat([(a - b).reshape(-1) for a, b in zip(everybody, rest, strict=True)])
            assert 0.99 * CLIP < float(moved.norm()) <= CLIP * (1 + 1e-12)

    with_run(base, lesson, look)


def test_a_trajectorys_gradient_is_that_of_its_mean_loss(base: Base, lesson: TrainingSet) -> None:
    """One by one and padded together are the same sum: the oracle of any faster way."""

    def look(run: PrivateRun) -> None:
        singly = [sum(parts) for parts in zip(*map(run.compute_gradients, range(6)), strict=True)]
        run.optimizer.forget_gradients()
        sum(run.loss(index) for index in range(6)).backward()  # type: ignore[union-attr]
        for weight, gradient in zip(run.weights, singly, strict=True):
            assert weight.grad is not None
            assert torch.allclose(weight.grad, gradient, atol=1e-5)

    with_run(base, lesson, look)


def test_no_trajectory_counts_as_a_number_that_is_none(base: Base, lesson: TrainingSet) -> None:
    def look(run: PrivateRun) -> None:
        plain = run.add_up([0])
        run.loss = lambda index: torch.nan * run.weights[0].sum()
        assert all(float(total.abs().sum()) == 0 for total in run.add_up([1, 2]))
        assert any(float(total.abs().sum()) > 0 for total in plain)

    with_run(base, lesson, look)


def test_the_same_key_and_data_give_the_same_bytes_and_another_key_others(
    base: Base, lesson: TrainingSet
) -> None:
    first = train(base, lesson)
    assert train(base, lesson) == first
    for stream in (Stream(b"x" * 32, "training", "inputs"), Stream(SECRET, "training", "others")):
        assert train(base, replace(lesson, private=protection(stream=stream))) != first


def test_a_lesson_without_a_trajectory_is_noise_for_all_its_steps(
    base: Base, lesson: TrainingSet
) -> None:
    progress: list[tuple[int, int]] = []
    empty = replace(lesson, sequences=[], tasks=[], private=protection(units=[]))
    for learner in ("success-sft", "reward-weighted"):
        trained = learners.get(learner)(base, empty, lambda *done: progress.append(done))
        assert trained.loss == 0.0
        assert adapter.distance(trained.tensors, lesson.start) > 0
    assert progress == [(1, 4), (2, 4), (3, 4), (4, 4)] * 2


def test_units_are_drawn_at_their_rate_and_each_gives_one_of_its_trajectories() -> None:
    own = protection(units=[[n, n + 1000] for n in range(1000)], rate=0.2)
    drawn = [own.draw(step) for step in range(20)]
    assert all(len({index % 1000 for index in step}) == len(step) for step in drawn)
    count = sum(map(len, drawn))
    assert abs(count - 4000) < 4 * math.sqrt(20_000 * 0.2 * 0.8)
    second = sum(index >= 1000 for step in drawn for index in step)
    assert abs(second - count / 2) < 4 * math.sqrt(count / 4)
    assert len({tuple(step) for step in drawn}) == 20
    assert len(protection(rate=1.0).draw(0)) == 3


def ks_distance(values: Any) -> float:
    """Greatest distance of the values' distribution from the standard normal one."""
    ordered = np.sort(values)
    normal = np.array([0.5 * math.erfc(-value / math.sqrt(2)) for value in ordered])
    steps = np.arange(len(ordered) + 1) / len(ordered)
    return float(max((steps[1:] - normal).max(), (normal - steps[:-1]).max()))


def test_noise_is_normal_by_kolmogorov_and_smirnov() -> None:
    count = 200_000
    values = Stream(SECRET, "any").draw_normals("noise", count)
    assert ks_distance(values) < 1.63 / math.sqrt(count)  # one in a hundred would fail
    assert ks_distance(1.02 * values) > 1.63 / math.sqrt(count)
    assert abs(float(np.corrcoef(values[: count // 2], values[count // 2 :])[0, 1])) < 0.01


def test_a_steps_noise_has_the_length_that_the_accountant_counts() -> None:
    own = protection(noise=2.0, divisor=5.0)
    noised = own.add_noise("A", 0, torch.zeros(100, 1000, dtype=torch.float64))
    assert float(noised.std()) == pytest.approx(2.0 * CLIP / 5.0, rel=0.02)
    others = [own.add_noise("B", 0, torch.zeros(9)), own.add_noise("A", 1, torch.zeros(9))]
    assert not any(torch.allclose(other, noised.reshape(-1)[:9]) for other in others)
