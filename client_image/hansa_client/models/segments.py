"""Segments: LoRA gradients of each trajectory of a packed row.

A plain backward pass adds up the trajectories of a row. Here a layer's thin products are computed
for each trajectory, which takes as long as the sum, and memory for each trajectory's gradient.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise

import torch
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence


class Segments:
    """Collects them in a backward pass; the weights themselves get no gradient."""

    def __init__(self) -> None:
        self.covered: set[int] = set()
        """Identities of the weights whose gradients are collected."""
        self._places: torch.Tensor | None = None
        self._gradients: dict[int, torch.Tensor] = {}
        self._into: Mapping[int, torch.Tensor] = {}

    def begin(self, lengths: Sequence[int], device: torch.device) -> None:
        """Expect a row of trajectories of these lengths."""
        ends = torch.tensor([0, *lengths]).cumsum(0).tolist()
        places = [torch.arange(*both) for both in pairwise(ends)]
        # The index behind the last token is a token of zeros, which pads shorter trajectories.
        filled = pad_sequence(places, batch_first=True, padding_value=ends[-1])
        self._places = filled.to(device)
        self._gradients = {}

    @contextmanager
    def collect_even(self, into: Mapping[int, torch.Tensor]) -> Iterator[None]:
        """Within, rows have trajectories of one length, and gradients are written to these tensors.

        Keys are the weights' identities; the first axis of each tensor is the trajectory.
        """
        self._into = into
        try:
            yield
        finally:
            self._into = {}

    @torch.no_grad()
    def take(self, weight: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor) -> None:
        """Compute one weight's gradients: rowsᵀ·columns over the tokens of each trajectory."""
        if self._into:
            place = self._into[id(weight)]
            # With equal lengths a trajectory is a slice of the row, without gather or padding.
            left, right = (each.reshape(len(place), -1, each.shape[1]) for each in (rows, columns))
            torch.bmm(left.transpose(1, 2), right, out=place)
            return
        if self._places is None:
            raise RuntimeError("backward pass without a call of begin()")
        left, right = (pad(each, (0, 0, 0, 1))[self._places] for each in (rows, columns))
        self._gradients[id(weight)] = torch.bmm(left.transpose(1, 2), right)

    def end(self, weights: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The gradients of these weights; the first axis of each is the trajectory."""
        taken, self._gradients, self._places = self._gradients, {}, None
        return [taken[id(weight)] for weight in weights]
