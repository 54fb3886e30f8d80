"""DP-SGD: steps whose sum no single unit can change by more than a bound, under noise.

Each step draws its units in secret, one by one, and of each one of its trajectories. The gradient
of a trajectory's mean loss is clipped, the sum gets noise, and is divided by a public number. The
number of steps is fixed; one that draws nobody is noise alone. The gradients are made one by one,
which is exact for any model, or from the segments of a packed row, which a GPU computes faster,
most of all where rows of few shapes are recorded as CUDA graphs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hansa_client import trajectory
from hansa_client.learners.private_graph import GraphedSums
from hansa_client.models import lora
from hansa_client.training import batches, even_rows, noise, scoring
from hansa_client.training.adamw import AdamW, State
from hansa_client.training.scoring import PackedScorer, agent_tokens

if TYPE_CHECKING:
    from hansa_client.models.segments import Segments
    from hansa_client.privacy import Stream

_BELOW = 1 - 1e-9
"""Rounding must not make a clipped gradient longer than its bound."""

_PIECE = 2**25
"""Values that are widened to float64 at a time."""

Sums = list[torch.Tensor]
"""What a step adds up, for each weight, in float64."""


@dataclass(frozen=True, kw_only=True)
class Protection:
    """How one round's training protects its units."""

    units: Sequence[Sequence[int]]
    """Each unit's sequences in the lesson: those of a task, or one trajectory."""
    rate: float
    """Chance with which a unit takes part in a step."""
    steps: int
    """Steps, whatever there is to learn from."""
    clip: float
    """Most that one trajectory's gradient counts."""
    noise: float
    """Noise of a step in units of the clip."""
    divisor: float
    """What a step's sum is divided by."""
    stream: Stream
    """Random numbers that stay in the silo."""

    def draw(self, step: int) -> list[int]:
        """The sequences of a step: of each unit that takes part, one."""
        takes_part = self.stream.uniforms(f"sample/{step}", len(self.units)) <= self.rate
        which = self.stream.uniforms(f"which/{step}", len(self.units))
        return [
            unit[min(int(place * len(unit)), len(unit) - 1)]
            for unit, is_in, place in zip(self.units, takes_part, which, strict=True)
            if is_in
        ]

    def noised(self, name: str, step: int, total: torch.Tensor) -> torch.Tensor:
        """A step's sum of one weight's gradients with noise, as a mean."""
        drawn = noise.drawn(self.stream, name, step, total.numel()).reshape(total.shape)
        return self.mean(total, torch.from_numpy(np.ascontiguousarray(drawn)))

    def mean(self, total: torch.Tensor, drawn: torch.Tensor) -> torch.Tensor:
        """A sum of gradients with this noise, as a mean."""
        there = drawn.to(total.device, non_blocking=True)
        return (total + self.noise * self.clip * there) / self.divisor


class PrivateRun:
    """One private training from start to end."""

    shrunk = 0
    """Never told: where memory runs out follows from what was drawn."""

    def __init__(
        self,
        wrapped: Any,
        protection: Protection,
        loss: Callable[[int], torch.Tensor],
        state: State,
        rate: Callable[[int, int], float],
    ) -> None:
        """`loss` is one trajectory's mean loss, `rate` a step's learning rate."""
        self._wrapped = wrapped
        self._protection = protection
        self._loss = loss
        self._rate = rate
        self._named = {
            lora.plain_name(n): w for n, w in wrapped.named_parameters() if w.requires_grad
        }
        self.weights = list(self._named.values())
        self.optimizer = AdamW(self._named, state)
        self.packed: PackedGradients | None = None
        """Where many trajectories are computed at a time; none: one by one."""
        self.pull: Callable[[], None] = lambda: None
        """What else is added to the gradients: of the weights alone, never of a record."""

    def steps(self, progress: Callable[[int, int], None]) -> Iterator[tuple[float, float]]:
        """Take the steps; no loss is told, for it is the records' own."""
        total = self._protection.steps
        self._wrapped.train()
        lots = [self._protection.draw(step) for step in range(total)]
        with self._noised(lots) as gradients:
            for done in range(total):
                for weight, gradient in zip(self.weights, gradients(done), strict=True):
                    weight.grad = gradient
                self.pull()
                self.optimizer.step(self._rate(done, total))
                yield 0.0, 1.0
                progress(done + 1, total)

    @contextmanager
    def _noised(self, lots: even_rows.Lots) -> Iterator[Callable[[int], list[torch.Tensor]]]:
        """What gives a step's gradients: weight by weight, or for a GPU all at once."""
        protection, packed = self._protection, self.packed
        if packed:
            sizes = {name: weight.numel() for name, weight in self._named.items()}
            with noise.ahead(protection.stream, sizes, protection.steps) as coming:
                packed.expect(lots, self.weights, protection.clip)
                flat = FlatNoise(protection, self.weights, coming)
                yield lambda step: flat.gradients(self._packed_sums(packed, lots[step]))
            return

        def one_by_one(step: int) -> list[torch.Tensor]:
            return [
                protection.noised(name, step, added).to(weight.dtype)
                for (name, weight), added in zip(
                    self._named.items(), self.sums(lots[step]), strict=True
                )
            ]

        yield one_by_one

    def sums(self, drawn: Sequence[int]) -> Sums:
        """The clipped gradients of these sequences, added up."""
        if self.packed:
            return views(self._packed_sums(self.packed, drawn).clone(), self.weights)
        sums = [torch.zeros_like(weight, dtype=torch.float64) for weight in self.weights]
        for index in drawn:
            add(sums, self.gradients(index), self._protection.clip)
        return sums

    def _packed_sums(self, packed: PackedGradients, drawn: Sequence[int]) -> torch.Tensor:
        """The same in rows as large as memory allows; where it is too little, they begin anew."""
        while True:
            try:
                return packed.sums(self.weights, drawn, self._protection.clip)
            except torch.OutOfMemoryError:
                if not packed.shrink(drawn):
                    raise
            torch.cuda.empty_cache()  # pieces of what was freed would not join to a larger one

    def gradients(self, index: int) -> list[torch.Tensor]:
        """The gradient of one trajectory's mean loss at each weight."""
        self.optimizer.forget_gradients()
        self._loss(index).backward()  # type: ignore[no-untyped-call]
        gradients = [torch.zeros_like(w) if w.grad is None else w.grad for w in self.weights]
        self.optimizer.forget_gradients()
        return gradients


class FlatNoise:
    """The same noise for all weights at once.

    A GPU is told of one sum: of hundreds of thin ones, each would wait for the one before.
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

    def gradients(self, total: torch.Tensor) -> list[torch.Tensor]:
        """Of each weight, the next step's sum with noise, as a mean; steps come in their order."""
        if self._copied:
            self._copied.synchronize()
        self._coming.read(self._drawn.numpy())
        flat = self._protection.mean(total, self._drawn)
        if self._copied:
            self._copied.record()
        return views(flat.to(self._weights[0].dtype), self._weights)


class PackedGradients:
    """Gradients of many trajectories at a time, from the segments of a packed row."""

    def __init__(
        self,
        scorer: PackedScorer,
        segments: Segments,
        sequences: Sequence[trajectory.Sequence],
        weights: Sequence[float],
        room: int,
    ) -> None:
        """`room` is how many tokens a part may have; without weights all count the same."""
        self._scorer = scorer
        self._segments = segments
        self._sequences = sequences
        self._lengths = [len(sequence) for sequence in sequences]
        self._room = room
        self._agents = [agent_tokens([sequence]) for sequence in sequences]
        pairs = zip(weights or [1.0] * len(sequences), self._agents, strict=True)
        self._shares = [weight / max(1, count) for weight, count in pairs]
        self._shapes: list[even_rows.RowShape] = []
        self._graphed: GraphedSums | None = None
        """Where rows are recorded as CUDA graphs."""

    def expect(self, lots: even_rows.Lots, weights: Sequence[torch.Tensor], clip: float) -> None:
        """Learn all steps' sequences: where their rows are many, they are worth recording."""

        def added(total: torch.Tensor, rows: torch.Tensor) -> None:
            add_rows(total, rows, clip)

        while self._scorer.may_record:
            own = (lots, self._lengths, self._agents, self._room)
            self._shapes = even_rows.shapes(*own, least=scoring.MANY)
            if not self._shapes:
                return
            try:
                self._graphed = GraphedSums(
                    self._scorer, self._segments, weights, self._shapes, added
                )
            except torch.OutOfMemoryError:
                if all(shape.count == 1 for shape in self._shapes):
                    return
                self._room = min(self._room, max(each.tokens for each in self._shapes)) // 2
            except RuntimeError:  # a layer that waits for the GPU cannot be recorded: only slower
                return
            else:
                return
            torch.cuda.empty_cache()

    def sums(
        self, weights: Sequence[torch.Tensor], drawn: Sequence[int], clip: float
    ) -> torch.Tensor:
        """The clipped gradients of these sequences, added up; the next call overwrites them."""
        if self._graphed:
            self._graphed.total.zero_()
            for shape, part in even_rows.rows(drawn, self._lengths, self._shapes):
                shares = [self._shares[index] for index in part]
                sequences = [self._sequences[index] for index in part]
                self._graphed.add(shape, even_rows.row(shape, sequences, shares))
            return self._graphed.total
        count = sum(weight.numel() for weight in weights)
        total = torch.zeros(count, dtype=torch.float64, device=weights[0].device)
        for part in self.parts(drawn):
            rows = [each.flatten(1) for each in self.gradients(weights, part)]
            add_rows(total, torch.cat(rows, dim=1), clip)
        return total

    def parts(self, drawn: Sequence[int]) -> list[list[int]]:
        """A step's sequences in parts that memory holds, similar lengths together."""
        order = sorted(drawn, key=lambda index: self._lengths[index])
        return batches.filled(order, self._lengths, self._room)

    def shrink(self, drawn: Sequence[int]) -> bool:
        """Halve the parts from now on; False: these are one sequence each already."""
        self._graphed = None
        several = [part for part in self.parts(drawn) if len(part) > 1]
        if several:
            self._room = max(batches.padded(part, self._lengths) for part in several) // 2
        return bool(several)

    def gradients(self, weights: Sequence[torch.Tensor], part: Sequence[int]) -> list[torch.Tensor]:
        """At each weight the gradients of these sequences' mean losses, one behind another."""
        sequences = [self._sequences[index] for index in part]
        self._segments.begin([len(sequence) for sequence in sequences], weights[0].device)
        logprobs, rows = self._scorer.logprobs(sequences)
        shares = self._scorer.tensor([self._shares[index] for index in part])
        (-(logprobs * shares[rows]).sum()).backward()  # type: ignore[no-untyped-call]
        return self._segments.end(weights)


def views(flat: torch.Tensor, weights: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """A row of all weights' values, weight by weight."""
    parts = torch.split(flat, [weight.numel() for weight in weights])
    return [part.view_as(weight) for part, weight in zip(parts, weights, strict=True)]


@torch.no_grad()
def add_rows(total: torch.Tensor, rows: torch.Tensor, clip: float) -> None:
    """The same as `add` of each: a row is one trajectory's gradient at all weights."""
    pieces = torch.split(rows, max(1, _PIECE // len(rows)), dim=1)
    squares = torch.stack([piece.double().square().sum(1) for piece in pieces])
    norms = squares.sum(0).sqrt()
    is_nothing = ~norms.isfinite()
    factors = (clip * _BELOW / norms).clamp(max=1.0).masked_fill(is_nothing, 0.0)
    added = [factors @ piece.double().masked_fill(is_nothing[:, None], 0.0) for piece in pieces]
    total.add_(torch.cat(added))


@torch.no_grad()
def add(sums: Sums, gradients: Sequence[torch.Tensor], clip: float) -> None:
    """Add one trajectory's gradient, clipped; one that is not finite counts as nothing."""
    wide = [gradient.double() for gradient in gradients]
    norm = math.sqrt(sum(float((gradient * gradient).sum()) for gradient in wide))
    if not math.isfinite(norm):
        return
    factor = min(1.0, clip * _BELOW / norm) if norm else 0.0
    for total, gradient in zip(sums, wide, strict=True):
        total.add_(gradient, alpha=factor)
