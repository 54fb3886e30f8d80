"""DP-SGD: steps whose sum no single unit can change by more than a bound, under noise.

Each step draws its units in secret, one by one, and of each one of its trajectories. The gradient
of a trajectory's mean loss is clipped, the sum gets noise, and is divided by a public number. The
number of steps is fixed; one that draws nobody is noise alone. The gradients are made one by one,
which is exact for any model, or from the segments of a packed row, which a GPU computes faster.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from hansa_client import trajectory
from hansa_client.models import lora
from hansa_client.training import batches
from hansa_client.training.adamw import AdamW, State
from hansa_client.training.scoring import Scorer, agent_tokens

if TYPE_CHECKING:
    from hansa_client.models.segments import Segments
    from hansa_client.privacy import Stream

_BELOW = 1 - 1e-9
"""Rounding must not make a clipped gradient longer than its bound."""

_THREADS = 4
"""That draw noise while a GPU computes."""
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
        drawn = self.drawn(name, step, total.numel()).reshape(total.shape)
        return self.mean(total, np.ascontiguousarray(drawn))

    def drawn(self, name: str, step: int, count: int) -> NDArray[np.float64]:
        """The standard normal numbers of one weight's noise in a step."""
        return self.stream.normals(f"noise/{step}/{name}", count)

    def mean(self, total: torch.Tensor, drawn: NDArray[np.float64]) -> torch.Tensor:
        """A sum of gradients with this noise, as a mean."""
        noise = torch.from_numpy(drawn).to(total.device)
        return (total + self.noise * self.clip * noise) / self.divisor


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
        with self._noise() as noised:
            for done in range(total):
                gradients = noised(done, self.sums(self._protection.draw(done)))
                for weight, gradient in zip(self.weights, gradients, strict=True):
                    weight.grad = gradient
                self.pull()
                self.optimizer.step(self._rate(done, total))
                yield 0.0, 1.0
                progress(done + 1, total)

    @contextmanager
    def _noise(self) -> Iterator[Callable[[int, Sums], list[torch.Tensor]]]:
        """What makes a step's sums into gradients: weight by weight, or for a GPU all at once."""
        protection = self._protection
        if self.packed:
            with ThreadPoolExecutor(_THREADS) as pool:
                yield NoiseAhead(protection, self._named, pool).gradients
            return

        def one_by_one(step: int, sums: Sums) -> list[torch.Tensor]:
            return [
                protection.noised(name, step, added).to(weight.dtype)
                for (name, weight), added in zip(self._named.items(), sums, strict=True)
            ]

        yield one_by_one

    def sums(self, drawn: Sequence[int]) -> Sums:
        """The clipped gradients of these sequences, added up."""
        if self.packed:
            return self._packed_sums(self.packed, drawn)
        sums = self._zeros()
        for index in drawn:
            add(sums, self.gradients(index), self._protection.clip)
        return sums

    def _packed_sums(self, packed: PackedGradients, drawn: Sequence[int]) -> Sums:
        """The same in rows as large as memory allows; where it is too little, they begin anew."""
        while True:
            sums = self._zeros()
            try:
                for part in packed.parts(drawn):
                    add_many(sums, packed.gradients(self.weights, part), self._protection.clip)
            except torch.OutOfMemoryError:
                if not packed.shrink(drawn):
                    raise
            else:
                return sums
            torch.cuda.empty_cache()  # pieces of what was freed would not join to a larger one

    def _zeros(self) -> Sums:
        return [torch.zeros_like(weight, dtype=torch.float64) for weight in self.weights]

    def gradients(self, index: int) -> list[torch.Tensor]:
        """The gradient of one trajectory's mean loss at each weight."""
        self.optimizer.forget_gradients()
        self._loss(index).backward()  # type: ignore[no-untyped-call]
        gradients = [torch.zeros_like(w) if w.grad is None else w.grad for w in self.weights]
        self.optimizer.forget_gradients()
        return gradients


class NoiseAhead:
    """Noise of the step to come, drawn by threads while a GPU computes the present one.

    It is the same noise, but a GPU is told of all weights at once: of hundreds of thin ones, each
    by itself would wait for the one before.
    """

    def __init__(
        self, protection: Protection, named: Mapping[str, torch.Tensor], pool: ThreadPoolExecutor
    ) -> None:
        self._protection = protection
        self._named = named
        self._pool = pool
        self._coming = self._begin(0)

    def gradients(self, step: int, sums: Sums) -> list[torch.Tensor]:
        """Of each weight, a step's sum with noise, as a mean; steps come in their order."""
        drawn = np.concatenate([part.result() for part in self._coming])
        self._coming = self._begin(step + 1) if step + 1 < self._protection.steps else []
        weights = list(self._named.values())
        flat = self._protection.mean(torch.cat([each.flatten() for each in sums]), drawn)
        sizes = [weight.numel() for weight in weights]
        parts = torch.split(flat.to(weights[0].dtype), sizes)
        return [part.view_as(weight) for part, weight in zip(parts, weights, strict=True)]

    def _begin(self, step: int) -> list[Future[NDArray[np.float64]]]:
        return [
            self._pool.submit(self._protection.drawn, name, step, weight.numel())
            for name, weight in self._named.items()
        ]


class PackedGradients:
    """Gradients of many trajectories at a time, from the segments of a packed row."""

    def __init__(
        self,
        scorer: Scorer,
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
        pairs = zip(weights or [1.0] * len(sequences), sequences, strict=True)
        self._shares = [weight / max(1, agent_tokens([sequence])) for weight, sequence in pairs]

    def parts(self, drawn: Sequence[int]) -> list[list[int]]:
        """A step's sequences in parts that memory holds, similar lengths together."""
        order = sorted(drawn, key=lambda index: self._lengths[index])
        return batches.filled(order, self._lengths, self._room)

    def shrink(self, drawn: Sequence[int]) -> bool:
        """Halve the parts from now on; False: these are one sequence each already."""
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


@torch.no_grad()
def add_many(sums: Sums, gradients: Sequence[torch.Tensor], clip: float) -> None:
    """The same as `add` of each: the first axis of the gradients is the trajectory."""
    flat = torch.cat([each.flatten(1) for each in gradients], dim=1)
    pieces = torch.split(flat, max(1, _PIECE // len(flat)), dim=1)
    squares = torch.stack([piece.double().square().sum(1) for piece in pieces])
    norms = squares.sum(0).sqrt()
    is_finite = norms.isfinite()
    factors = torch.where(is_finite, (clip * _BELOW / norms).clamp(max=1.0), 0.0)
    added = torch.cat(
        [factors @ torch.where(is_finite[:, None], piece.double(), 0.0) for piece in pieces]
    )
    parts = torch.split(added, [total.numel() for total in sums])
    torch._foreach_add_(sums, [p.view_as(total) for p, total in zip(parts, sums, strict=True)])


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
