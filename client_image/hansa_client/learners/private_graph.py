"""Private rows as CUDA graphs: read, told apart, clipped and added up in one replay each.

A small model's private row is some ten thousand short kernels, and starting each of them from
Python takes longer than running it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from hansa_client.models.segments import Segments
from hansa_client.training.cuda_graph import GraphRecorder
from hansa_client.training.even_rows import EvenRow, RowShape
from hansa_client.training.packing import PackedRow
from hansa_client.training.scoring import PackedScorer

Clipped = Callable[[torch.Tensor, torch.Tensor], None]
"""Adds gradients, each a row and clipped, to a sum."""


class GraphedSums:
    """Sums of clipped gradients over even rows of some shapes."""

    def __init__(
        self,
        scorer: PackedScorer,
        segments: Segments,
        weights: Sequence[torch.Tensor],
        shapes: Sequence[RowShape],
        add: Clipped,
    ) -> None:
        device = weights[0].device
        count = sum(weight.numel() for weight in weights)
        self.total = torch.zeros(count, dtype=torch.float64, device=device)
        """What was added up since it was last zeroed."""
        recorder = GraphRecorder(device)
        self._of_shape = {
            shape: _GraphedRow(scorer, segments, weights, shape, add, self.total, recorder)
            for shape in shapes
        }

    def add(self, shape: RowShape, row: EvenRow) -> None:
        """Add one row's."""
        self._of_shape[shape].add(row)


class _GraphedRow:
    """A row of one shape."""

    def __init__(
        self,
        scorer: PackedScorer,
        segments: Segments,
        weights: Sequence[torch.Tensor],
        shape: RowShape,
        add: Clipped,
        total: torch.Tensor,
        recorder: GraphRecorder,
    ) -> None:
        self._scorer, self._segments, self._weights = scorer, segments, weights
        self._shape, self._add, self._total = shape, add, total
        device = weights[0].device
        count, length = shape.count, shape.length
        self._positions = torch.arange(length, device=device).repeat(count)[None]
        self._bounds = length * torch.arange(count + 1, dtype=torch.int32, device=device)
        # Recorded is an empty row, which adds nothing.
        numbers = torch.zeros(2 * shape.tokens + shape.wanted, dtype=torch.long, device=device)
        numbers[shape.tokens : 2 * shape.tokens] = shape.wanted
        self._numbers = numbers
        self._shares = torch.zeros(shape.wanted, dtype=torch.float32, device=device)
        self._play = recorder.record(self._step)

    def add(self, row: EvenRow) -> None:
        """Add its clipped gradients to the sum."""
        self._numbers.copy_(torch.from_numpy(row.numbers))
        self._shares.copy_(torch.from_numpy(row.shares))
        self._play()

    def _step(self) -> None:
        shape = self._shape
        tokens, among, wanted = self._numbers.split([shape.tokens, shape.tokens, shape.wanted])  # type: ignore[no-untyped-call]
        row = PackedRow(
            tokens[None], self._positions, self._bounds, shape.length, [shape.length] * shape.count
        )
        size = (shape.count, len(self._total))
        gradients = torch.zeros(size, dtype=self._scorer.dtype, device=tokens.device)
        with self._segments.even(self._places(gradients)):
            self._scorer.read_backward(row, wanted, among, self._shares, self._weights)
        self._add(self._total, gradients)

    def _places(self, gradients: torch.Tensor) -> dict[int, torch.Tensor]:
        """Where the gradients of each weight are, by its identity."""
        parts = gradients.split([weight.numel() for weight in self._weights], dim=1)  # type: ignore[no-untyped-call]
        return {
            id(weight): part.view(len(part), *weight.shape)
            for weight, part in zip(self._weights, parts, strict=True)
        }
