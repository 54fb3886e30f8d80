"""Several processes train one lesson to the adapter of one, but for the order of sums."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from hansa.adapter import lora
from hansa.adapter.lora import Tensors
from hansa.api.spec import Adapter, Training
from hansa_client import learners
from hansa_client.learners import TrainingSet, multi_gpu
from hansa_client.models import base_model
from hansa_client.models.base_model import Base
from hansa_client.trajectory import Sequence as Trajectory
from tests.unit.hansa_client.conftest import TINY


def lesson(start: Tensors) -> TrainingSet:
    drawn = np.random.default_rng(3)
    return TrainingSet(
        sequences=[
            Trajectory(drawn.integers(1, 300, size).tolist(), [p % 2 == 1 for p in range(size)])
            for size in (6, 8, 9, 12, 12, 15, 60)
        ],
        start=start,
        adapter=Adapter(),
        training=Training(learning_rate=1e-3, batch_tokens=64, epochs=2),
        seed=5,
    )


@pytest.mark.slow
def test_two_processes_make_the_adapter_of_one(base: Base, start: Tensors) -> None:
    lesson_ = lesson(start)
    assert any(
        len(step) == 1 for step in lesson_.plan_steps()
    )  # in which the second has nothing to do
    train = learners.get("success-sft")
    alone = train(base, lesson_, lambda done, total: None)
    with multi_gpu.train_on_all_gpus(TINY, base_model.resolve(TINY), lesson_, processes=2):
        both = train(base, lesson_, lambda done, total: None)
    assert multi_gpu.count_processes() == 1
    assert both.loss == pytest.approx(alone.loss, rel=1e-4)
    moved = lora.distance(alone.tensors, start)
    assert lora.distance(alone.tensors, both.tensors) < 0.01 * moved


@pytest.mark.parametrize(
    "together, shares",
    [(1, [[5, 7, 9], [6, 8]]), (2, [[5, 6], [7, 8]])],
    ids=["singles", "pairs"],
)
def test_a_step_is_dealt_out_whole(
    monkeypatch: pytest.MonkeyPatch, together: int, shares: Sequence[Sequence[int]]
) -> None:
    monkeypatch.setattr(multi_gpu, "count_processes", lambda: 2)
    step = [index for index in (5, 6, 7, 8, 9) if together == 1 or index < 9]
    for rank, expected in enumerate(shares):
        monkeypatch.setattr(multi_gpu, "get_process_rank", lambda rank=rank: rank)
        assert multi_gpu.take_share(step, together) == expected


def test_one_alone_shares_with_nobody() -> None:
    weight = torch.ones(2, requires_grad=True)
    assert multi_gpu.take_share([3, 1, 2], 1) == [3, 1, 2]
    assert multi_gpu.sum_gradients([weight], 0.5) == 0.5
    assert weight.grad is None
