"""Second moments of what each linear layer is given: the mean of x·xᵀ over trajectories' tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch

from hansa_client import trajectory
from hansa_client.models.base_model import Base
from hansa_client.training import batches

KEPT = 0.9
"""Share of the off-diagonals that is kept: what two inputs have in common is known less well."""
_READ_TOKENS = 16384
"""Tokens of one forward pass, padding included."""
_SPARE = 32
"""Directions beside the wanted ones in which those are looked for."""
_FLOAT_BYTES = 4


@dataclass(frozen=True)
class Moments:
    """What one silo tells of its inputs."""

    by_input: dict[str, torch.Tensor]
    """Mean of x·xᵀ, by the first layer that reads this input."""
    input_of: dict[str, str]
    """That layer's name, by each layer: q, k and v read the same, and so do gate and up."""

    def damped(self) -> Moments:
        """With smaller off-diagonals."""
        made = {name: damped(matrix) for name, matrix in self.by_input.items()}
        return Moments(made, self.input_of)

    def of_trace_one(self) -> Moments:
        """Each divided by its trace."""
        made = {name: matrix / matrix.diagonal().sum() for name, matrix in self.by_input.items()}
        return Moments(made, self.input_of)

    def cut(self, rank: int) -> Moments:
        """With the largest directions of each, and a flat rest."""
        made = {name: cut(matrix, rank) for name, matrix in self.by_input.items()}
        return Moments(made, self.input_of)

    def bytes_at(self, rank: int) -> int:
        """What they would take if each was sent as so many directions, their sizes and the rest."""
        widths = [len(matrix) for matrix in self.by_input.values()]
        return _FLOAT_BYTES * sum(min(rank, width) * (width + 1) + 1 for width in widths)


@torch.no_grad()
def collect(
    base: Base, modules: Sequence[str], sequences: Sequence[trajectory.Sequence]
) -> Moments:
    """One pass of the model as it is now over all tokens of the trajectories.

    Rows are padded on the right, where no real token sees the padding; padding does not count.
    """
    seen = _Inputs()
    lengths = [len(sequence) for sequence in sequences]
    order = sorted(range(len(lengths)), key=lambda index: lengths[index])
    with ExitStack() as hooks:
        for name in modules:
            layer = base.model.get_submodule(name)
            hooks.callback(layer.register_forward_pre_hook(seen.hook(name)).remove)
        for part in batches.fill_batches(order, lengths, _READ_TOKENS):
            width = max(lengths[index] for index in part)
            rows = [sequences[index].tokens for index in part]
            ids = torch.tensor([row + [0] * (width - len(row)) for row in rows])
            ends = torch.tensor([len(row) for row in rows])
            seen.begin((torch.arange(width) < ends[:, None]).to(base.device))
            base.model(input_ids=ids.to(base.device), use_cache=False, logits_to_keep=1)
    tokens = sum(lengths)
    return Moments({name: total / tokens for name, total in seen.totals.items()}, seen.input_of)


class _Inputs:
    """The sums over what layers were given so far."""

    def __init__(self) -> None:
        self.totals: dict[str, torch.Tensor] = {}
        self.input_of: dict[str, str] = {}
        self._real = torch.empty(0)
        self._last: tuple[torch.Tensor, str] | None = None

    def begin(self, real: torch.Tensor) -> None:
        """The next batch, of which only these tokens count."""
        self._real, self._last = real.flatten().nonzero()[:, 0], None

    def hook(self, name: str) -> Callable[[Any, tuple[torch.Tensor, ...]], None]:
        """What a layer of this name is to call before each pass."""

        def look(layer: Any, arguments: tuple[torch.Tensor, ...]) -> None:
            states = arguments[0]
            if self._last is None or self._last[0] is not states:
                self._last = (states, name)
                self._add(name, states.flatten(0, 1)[self._real].float())
            self.input_of[name] = self._last[1]

        return look

    def _add(self, name: str, rows: torch.Tensor) -> None:
        if name not in self.totals:
            self.totals[name] = rows.new_zeros((rows.shape[1], rows.shape[1]))
        self.totals[name].addmm_(rows.T, rows)


def damped(matrix: torch.Tensor) -> torch.Tensor:
    """Off-diagonals times KEPT."""
    made = KEPT * matrix
    made.diagonal().copy_(matrix.diagonal())
    return made


def cut(matrix: torch.Tensor, rank: int) -> torch.Tensor:
    """U·S·Uᵀ + s·I of the largest directions U, with s the mean of all other eigenvalues.

    They are looked for in a random subspace, which is faster by far than all of them. Where it is
    the whole space they are exact.
    """
    size = len(matrix)
    if rank >= size:
        return matrix
    wide = matrix.double()
    draw = torch.Generator().manual_seed(size)
    columns = min(size, rank + _SPARE)
    start = torch.randn(size, columns, generator=draw, dtype=torch.float64)
    basis, _ = torch.linalg.qr(wide @ start.to(wide.device))
    basis, _ = torch.linalg.qr(wide @ (wide @ (wide @ basis)))
    values, vectors = torch.linalg.eigh(basis.T @ wide @ basis)
    largest = basis @ vectors[:, -rank:]
    rest = (wide.trace() - values[-rank:].sum()) / (size - rank)
    made: torch.Tensor = (largest * (values[-rank:] - rest)) @ largest.T
    made.diagonal().add_(rest)
    return made.to(matrix.dtype)
