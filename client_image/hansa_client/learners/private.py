"""DP-SGD: training in which a single unit can change a step by a bound at most, under noise.

Each step samples units by Poisson sampling with secret random numbers, and one trajectory of each.
The gradient of a trajectory's mean loss is clipped; the sum gets noise and is divided by a public
number. The number of steps is fixed, and a step without a unit is noise alone. Per-trajectory
gradients are computed one by one, which works for any model, or from the segments of a packed row,
which is faster on a GPU, above all in CUDA graphs.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch

from hansa_client import trajectory
from hansa_client.learners.private_graph import GraphedSums, split_by_weight
from hansa_client.training import batches, even_rows, noise, scoring
from hansa_client.training.adamw import AdamW
from hansa_client.training.scoring import PackedScorer, count_agent_tokens

if TYPE_CHECKING:
    from hansa_client.models.segments import Segments
    from hansa_client.privacy import Stream

_BELOW = 1 - 1e-9
"""Factor against rounding, so that no clipped gradient is longer than its bound."""
_PIECE = 2**25
"""Values that are converted to float64 at a time."""


@dataclass(frozen=True, kw_only=True)
class Protection:
    """How one round's training protects its units."""

    units: Sequence[Sequence[int]]
    """Indexes of each unit's sequences: those of a task, or one trajectory."""
    rate: float
    """Probability that a step samples a unit."""
    steps: int
    """Number of steps, which does not depend on the data."""
    clip: float
    """Maximum norm of one trajectory's gradient."""
    noise: float
    """Noise multiplier: the standard deviation of a step's noise, in units of the clip."""
    divisor: float
    """Expected batch size, by which a step's sum is divided."""
    stream: "Stream"
    """Random numbers that stay in the silo."""

    def draw(self, step: int) -> list[int]:
        """The sequences of a step: one of each sampled unit."""
        takes_part = self.stream.draw_uniforms(f"sample/{step}", len(self.units)) <= self.rate
        which = self.stream.draw_uniforms(f"which/{step}", len(self.units))
        return [
            unit[min(int(place * len(unit)), len(unit) - 1)]
            for unit, is_in, place in zip(self.units, takes_part, which, strict=True)
            if is_in
        ]

    def add_noise(self, name: str, step: int, total: torch.Tensor) -> torch.Tensor:
        """Mean of a step's gradients of one weight, with noise."""
        drawn = noise.draw_normals(self.stream, name, step, total.numel()).reshape(total.shape)
        return self.average(total, torch.from_numpy(np.ascontiguousarray(drawn)))

    def average(self, total: torch.Tensor, drawn: torch.Tensor) -> torch.Tensor:
        """Mean of a step's gradients, with this noise."""
        there = drawn.to(total.device, non_blocking=True)
        return (total + self.noise * self.clip * there) / self.divisor


@dataclass
class PrivateRun:
    """One private training from start to end."""

    wrapped: Any
    protection: Protection
    loss: Callable[[int], torch.Tensor]
    """One trajectory's mean loss."""
    optimizer: AdamW
    take_step: Callable[[int, int], None]
    """Adds nothing that depends on data."""
    packed: "PackedGradients | None" = None
    """Computes the gradients of many trajectories at a time; None: one by one."""
    shrunk: ClassVar[int] = 0
    """Never reported: it would reveal something about the sampled trajectories."""

    @property
    def weights(self) -> list[torch.Tensor]:
        """What is trained."""
        return self.optimizer.weights

    def run_steps(self, progress: Callable[[int, int], None]) -> Iterator[tuple[float, float]]:
        """Take the steps; no loss is reported, since it depends on the records."""
        total = self.protection.steps
        self.wrapped.train()
        lots = [self.protection.draw(step) for step in range(total)]
        with self._open_gradients(lots) as gradients:
            for done in range(total):
                for weight, gradient in zip(self.weights, gradients(done), strict=True):
                    weight.grad = gradient
                self.take_step(done, total)
                yield 0.0, 1.0
                progress(done + 1, total)

    @contextmanager
    def _open_gradients(
        self, lots: even_rows.Lots
    ) -> Iterator[Callable[[int], list[torch.Tensor]]]:
        """A function that returns the gradients of a step: by weight, or for a GPU all at once."""
        protection, packed = self.protection, self.packed
        if packed:
            sizes = {name: weight.numel() for name, weight in self.optimizer.named.items()}
            with noise.draw_ahead(protection.stream, sizes, protection.steps) as coming:
                packed.expect(lots)
                flat = FlatNoise(protection, self.weights, coming)
                yield lambda step: flat.compute_gradients(packed.add_up(lots[step]))
            return

        def one_by_one(step: int) -> list[torch.Tensor]:
            return [
                protection.add_noise(name, step, added).to(weight.dtype)
                for (name, weight), added in zip(
                    self.optimizer.named.items(), self.add_up(lots[step]), strict=True
                )
            ]

        yield one_by_one

    def add_up(self, drawn: Sequence[int]) -> list[torch.Tensor]:
        """The sum of the clipped gradients of these sequences for each weight, in float64."""
        if self.packed:
            return split_by_weight(self.packed.add_up(drawn).clone(), self.weights)
        sums = [torch.zeros_like(weight, dtype=torch.float64) for weight in self.weights]
        for index in drawn:
            add_clipped(sums, self.compute_gradients(index), self.protection.clip)
        return sums

    def compute_gradients(self, index: int) -> list[torch.Tensor]:
        """The gradient of one trajectory's mean loss at each weight."""
        self.optimizer.forget_gradients()
        self.loss(index).backward()  # type: ignore[no-untyped-call]
        gradients = [torch.zeros_like(w) if w.grad is None else w.grad for w in self.weights]
        self.optimizer.forget_gradients()
        return gradients


class FlatNoise:
    """The same noise for all weights at once.

    On a GPU this is one kernel; hundreds of small ones would each wait for the one before.
    """

    def __init__(
        self, protection: Protection, weights: Sequence[torch.Tensor], coming: noise.NoiseAhead
    ) -> None:
        self._protection = protection
        self._weights = weights
        self._coming = coming
        count, is_gpu = sum(weight.numel() for weight in weights), weights[0].is_cuda
        self._drawn = torch.empty(count, dtype=torch.float64, pin_memory=is_gpu)
        self._copied = torch.cuda.Event() if is_gpu else None  # type: ignore[no-untyped-call]

    def compute_gradients(self, total: torch.Tensor) -> list[torch.Tensor]:
        """Each weight's mean gradient of the next step, with noise; steps are in order."""
        if self._copied:
            self._copied.synchronize()
        self._coming.read(self._drawn.numpy())
        flat = self._protection.average(total, self._drawn)
        if self._copied:
            self._copied.record()
        return split_by_weight(flat.to(self._weights[0].dtype), self._weights)


@dataclass
class PackedGradients:
    """Per-trajectory gradients from the segments of packed rows."""

    scorer: PackedScorer
    segments: "Segments"
    weights: Sequence[torch.Tensor]
    sequences: Sequence[trajectory.Sequence]
    counts: Sequence[float]
    """What each trajectory counts; empty: all count equally."""
    room: int
    """Most tokens of a row."""
    clip: float

    def __post_init__(self) -> None:
        self._lengths = [len(sequence) for sequence in self.sequences]
        self._add_rows = partial(add_clipped_rows, clip=self.clip)
        self._agents = [count_agent_tokens([sequence]) for sequence in self.sequences]
        pairs = zip(self.counts or [1.0] * len(self.sequences), self._agents, strict=True)
        self._shares = [weight / max(1, count) for weight, count in pairs]
        self._shapes: list[even_rows.RowShape] = []
        self._graphed: GraphedSums | None = None
        """CUDA graphs of the rows, if they are captured."""

    def expect(self, lots: even_rows.Lots) -> None:
        """Capture CUDA graphs if the rows of all steps are many enough."""
        while self.scorer.may_record:
            own = (lots, self._lengths, self._agents, self.room)
            self._shapes = even_rows.choose_shapes(*own, least=scoring.MANY)
            if not self._shapes:
                return
            try:
                self._graphed = GraphedSums(
                    self.scorer, self.segments, self.weights, self._shapes, self._add_rows
                )
            except torch.OutOfMemoryError:
                if all(shape.count == 1 for shape in self._shapes):
                    return
                self.room = min(self.room, max(each.tokens for each in self._shapes)) // 2
            except RuntimeError:  # a layer that waits for the GPU cannot be captured: only slower
                return
            else:
                return
            torch.cuda.empty_cache()

    def add_up(self, drawn: Sequence[int]) -> torch.Tensor:
        """The sum of the clipped gradients of these sequences; the next call overwrites it.

        Rows are halved where memory runs out.
        """
        while True:
            try:
                return self._add_up(drawn)
            except torch.OutOfMemoryError:
                if not self.shrink(drawn):
                    raise
            torch.cuda.empty_cache()  # freed blocks would stay too small otherwise

    def _add_up(self, drawn: Sequence[int]) -> torch.Tensor:
        if self._graphed:
            self._graphed.total.zero_()
            for shape, part in even_rows.fill_rows(drawn, self._lengths, self._shapes):
                shares = [self._shares[index] for index in part]
                sequences = [self.sequences[index] for index in part]
                self._graphed.add(shape, even_rows.build_row(shape, sequences, shares))
            return self._graphed.total
        count = sum(weight.numel() for weight in self.weights)
        total = torch.zeros(count, dtype=torch.float64, device=self.weights[0].device)
        for part in self.split_lot(drawn):
            rows = [each.flatten(1) for each in self.compute_gradients(part)]
            self._add_rows(total, torch.cat(rows, dim=1))
        return total

    def split_lot(self, drawn: Sequence[int]) -> list[list[int]]:
        """A step's sequences in rows, similar lengths together."""
        return batches.fill_batches(drawn, self._lengths, self.room)

    def shrink(self, drawn: Sequence[int]) -> bool:
        """Halve the rows from now on; False: they have one sequence each already."""
        self._graphed = None
        several = [part for part in self.split_lot(drawn) if len(part) > 1]
        if several:
            self.room = (
                max(batches.count_padded_tokens(part, self._lengths) for part in several) // 2
            )
        return bool(several)

    def compute_gradients(self, part: Sequence[int]) -> list[torch.Tensor]:
        """For each weight the gradients of these sequences' mean losses, stacked."""
        sequences = [self.sequences[index] for index in part]
        self.segments.begin([self._lengths[index] for index in part], self.weights[0].device)
        logprobs, rows = self.scorer.logprobs(sequences)
        shares = self.scorer.tensor([self._shares[index] for index in part])
        (-(logprobs * shares[rows]).sum()).backward()  # type: ignore[no-untyped-call]
        return self.segments.end(self.weights)


@torch.no_grad()
def add_clipped_rows(total: torch.Tensor, rows: torch.Tensor, clip: float) -> None:
    """The same as `add` for each row, which is one trajectory's gradient at all weights."""
    pieces = torch.split(rows, max(1, _PIECE // len(rows)), dim=1)
    squares = torch.stack([piece.double().square().sum(1) for piece in pieces])
    norms = squares.sum(0).sqrt()
    is_nothing = ~norms.isfinite()
    factors = (clip * _BELOW / norms).clamp(max=1.0).masked_fill(is_nothing, 0.0)
    added = [factors @ piece.double().masked_fill(is_nothing[:, None], 0.0) for piece in pieces]
    total.add_(torch.cat(added))


@torch.no_grad()
def add_clipped(
    sums: Sequence[torch.Tensor], gradients: Sequence[torch.Tensor], clip: float
) -> None:
    """Add one trajectory's clipped gradient; one that is not finite is left out."""
    wide = [gradient.double() for gradient in gradients]
    norm = math.sqrt(sum(float((gradient * gradient).sum()) for gradient in wide))
    if not math.isfinite(norm):
        return
    factor = min(1.0, clip * _BELOW / norm) if norm else 0.0
    for total, gradient in zip(sums, wide, strict=True):
        total.add_(gradient, alpha=factor)
