"""The decoder for GPUs, its recorded step run as plain calls where there is no GPU."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from hansa_client.decoding import cuda_graph_decoder
from hansa_client.decoding.protocol import StopConditions
from hansa_client.models.base_model import Base
from hansa_client.models.kv_slots import FlashPlan
from hansa_client.rollout import episodes, tasks
from hansa_client.rollout.episodes import RolloutConfig
from hansa_worlds import DEMO_OPTIONS, make

HOW = RolloutConfig(
    temperature=1.0,
    max_length=400,
    batch_episodes=5,
    round=1,
    source="exploration",
    max_new_tokens=20,
)


class Step:
    """A graph that does nothing but call."""

    def __init__(self) -> None:
        self.call: Any = None

    def replay(self) -> None:
        self.call()


def attend(
    self: FlashPlan, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scale: float
) -> torch.Tensor:
    """What flash attention computes, row by row."""
    flat_keys, flat_values = keys.flatten(0, 1), values.flatten(0, 1)
    begins, first, used = self.begins.tolist(), self.slots.tolist(), self.used.tolist()
    seen = []
    for row, length in enumerate(used):
        own = query[begins[row] : begins[row + 1]]
        within = slice(first[row], first[row] + length)
        scores = torch.einsum("qhd,khd->hqk", own, flat_keys[within]) * scale
        last = torch.arange(length - len(own), length)
        scores = scores.masked_fill(torch.arange(length) > last[:, None], -torch.inf)
        seen.append(torch.einsum("hqk,khd->qhd", scores.softmax(-1), flat_values[within]))
    return torch.cat(seen)


@pytest.fixture
def by_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `play` take the decoder for GPUs."""
    from hansa_client.decoding import choose, slot_decoder

    def new(
        base: Base, rows: int, how: RolloutConfig, endings: StopConditions
    ) -> cuda_graph_decoder.CudaGraphDecoder:
        made = cuda_graph_decoder.CudaGraphDecoder(base, rows, how, endings)
        made._graph.call = made._step  # type: ignore[attr-defined]
        return made

    def plan(slots: Any, spans: Any, model: Any) -> FlashPlan:
        return FlashPlan.from_spans(slots, spans, torch.device("cpu"))

    monkeypatch.setattr(cuda_graph_decoder, "_STEPS", 1)  # so that rows fall apart most
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Step)
    monkeypatch.setattr(FlashPlan, "attend", attend)
    monkeypatch.setattr(slot_decoder, "make_plan", plan)
    monkeypatch.setattr(choose, "_make_slot_decoder", new)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="sampled"),
        pytest.param({"temperature": 0.0}, id="greedy"),
        pytest.param({"max_new_tokens": 2}, id="cut"),
        pytest.param({"max_length": 90}, id="short"),
        pytest.param({"stop": (" goal", "up")}, id="stopped by a text"),
    ],
)
def test_it_plays_what_the_decoder_for_cpus_plays(
    base: Base, by_steps: None, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    def world() -> Any:
        return make("maze", {**DEMO_OPTIONS["maze"], "max_turns": 6})

    jobs = tasks.choose_held_out_jobs(world().tasks("train"), 12, seed=3)
    how = replace(HOW, **changes)
    ours = episodes.play(base, world, jobs, how)
    monkeypatch.undo()
    theirs = episodes.play(base, world, jobs, how)
    assert (ours.engine, theirs.engine) == ("graph", "slots")
    assert ours.episodes == theirs.episodes
