"""Private rows as CUDA graphs: one replay computes, clips and adds up the gradients of a row.

A small model's private row is about ten thousand short kernels, and launching each of them from
Python takes longer than running it.
"""

from collections.abc import Callable, Sequence

import torch

from hansa_client.models.segments import Segments
from hansa_client.training.even_rows import EvenRow, RowShape
from hansa_client.training.packing import WARM_UPS, PackedRow
from hansa_client.training.scoring import PackedScorer


class GraphedSums:
    """Sums of clipped gradients over even rows of some shapes."""

    def __init__(
        self,
        scorer: PackedScorer,
        segments: Segments,
        weights: Sequence[torch.Tensor],
        shapes: Sequence[RowShape],
        add: Callable[[torch.Tensor, torch.Tensor], None],
    ) -> None:
        """`add` adds gradients, one in each row, to a sum after clipping."""
        self._scorer, self._segments, self._weights = scorer, segments, weights
        self._add, self._device = add, weights[0].device
        count = sum(weight.numel() for weight in weights)
        self.total = torch.zeros(count, dtype=torch.float64, device=self._device)
        """The sum since it was last zeroed."""
        # Graphs run one at a time, so that they share memory.
        self._pool = torch.cuda.graph_pool_handle() if self._device.type == "cuda" else None
        self._captured: list[Callable[[], None]] = []
        self._graphs = {shape: self._record(shape) for shape in shapes}

    def add(self, shape: RowShape, row: EvenRow) -> None:
        """Add a row's clipped gradients to the sum."""
        numbers, shares, replay = self._graphs[shape]
        numbers.copy_(torch.from_numpy(row.numbers))
        shares.copy_(torch.from_numpy(row.shares))
        replay()

    def _record(self, shape: RowShape) -> tuple[torch.Tensor, torch.Tensor, Callable[[], None]]:
        """The inputs of a graph for rows of this shape, and what replays it."""
        count, length, device = shape.count, shape.length, self._device
        positions = torch.arange(length, device=device).repeat(count)[None]
        bounds = length * torch.arange(count + 1, dtype=torch.int32, device=device)
        # An empty row is recorded, which adds nothing.
        numbers = torch.zeros(2 * shape.tokens + shape.wanted, dtype=torch.long, device=device)
        numbers[shape.tokens : 2 * shape.tokens] = shape.wanted
        shares = torch.zeros(shape.wanted, dtype=torch.float32, device=device)

        def step() -> None:
            tokens, among, wanted = numbers.split([shape.tokens, shape.tokens, shape.wanted])  # type: ignore[no-untyped-call]
            row = PackedRow(tokens[None], positions, bounds, length, [length] * count)
            size = (count, len(self.total))
            gradients = torch.zeros(size, dtype=self._scorer.dtype, device=device)
            parts = split_by_weight(gradients, self._weights)
            with self._segments.collect_even(dict(zip(map(id, self._weights), parts, strict=True))):
                self._scorer.read_backward(row, wanted, among, shares, self._weights)
            self._add(self.total, gradients)

        return numbers, shares, self._capture(step)

    def _capture(self, step: Callable[[], None]) -> Callable[[], None]:
        """Run and capture a step, and return what replays it; on a CPU, for tests, the step."""
        if self._device.type != "cuda":
            return step
        stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(stream):
            for _ in range(WARM_UPS):
                step()
        torch.cuda.current_stream(self._device).wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            step()
        # A graph reads the tensors of its capture where they lay, so they must stay: step has them.
        self._captured.append(step)
        return graph.replay


def split_by_weight(flat: torch.Tensor, weights: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Split the last axis, which has all weights' values, into tensors of their shapes."""
    parts = torch.split(flat, [weight.numel() for weight in weights], dim=-1)
    return [
        part.view(*flat.shape[:-1], *weight.shape)
        for part, weight in zip(parts, weights, strict=True)
    ]
