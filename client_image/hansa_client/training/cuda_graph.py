"""CUDA graphs: steps that are captured once and then replayed.

A small model's step is thousands of short kernels, and launching each of them from Python takes
longer than running it. A CUDA graph launches them all at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from hansa_client.training.packing import Frame, PackedModel, PackedRow

WARM_UPS = 1
"""Runs before the capture, in which libraries allocate the memory they keep."""


def record_model(
    model: Any, packed: PackedModel, frame: Frame, device: torch.device
) -> Callable[[PackedRow], torch.Tensor]:
    """`packed.compute_states` for rows of one frame, as a graph; a call overwrites the last."""
    blank = PackedRow.pack([[0]], device, frame)
    made = (blank.tokens, blank.positions, blank.bounds)
    trunk = _Trunk(model, packed, frame).train()
    play: Any = torch.cuda.make_graphed_callables(trunk, made, num_warmup_iters=WARM_UPS)
    return lambda row: play(row.tokens, row.positions, row.bounds)


class _Trunk(torch.nn.Module):
    """The model without its output layer, as a function of tensors alone."""

    def __init__(self, model: Any, packed: PackedModel, frame: Frame) -> None:
        super().__init__()
        self.model = model
        self._packed = packed
        self._frame = frame

    def forward(
        self, tokens: torch.Tensor, positions: torch.Tensor, bounds: torch.Tensor
    ) -> torch.Tensor:
        row = PackedRow(tokens, positions, bounds, self._frame.longest, [])
        return self._packed.compute_states(row)
