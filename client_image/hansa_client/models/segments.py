"""Segments: the gradient of each trajectory of a packed row by itself, at LoRA's thin weights.

A plain backward pass adds the trajectories of a row up. Here a layer's thin products are taken
trajectory by trajectory: they cost what the sum costs, and room for each trajectory's adapter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise

import torch
from torch.nn.utils.rnn import pad_sequence


class Segments:
    """Collects them while a row is read backward; the weights themselves get no gradient."""

    def __init__(self) -> None:
        self.covered: set[int] = set()
        """Weights, by identity, whose gradients come here."""
        self._places: torch.Tensor | None = None
        self._gradients: dict[int, torch.Tensor] = {}
        self._into: Mapping[int, torch.Tensor] = {}

    def begin(self, lengths: Sequence[int], device: torch.device) -> None:
        """Expect a row of trajectories of these lengths, and nothing else in it."""
        ends = torch.tensor([0, *lengths]).cumsum(0).tolist()
        places = [torch.arange(*both) for both in pairwise(ends)]
        # Behind the last token stands one of zeros, which fills shorter trajectories up.
        filled = pad_sequence(places, batch_first=True, padding_value=ends[-1])
        self._places = filled.to(device)
        self._gradients = {}

    @contextmanager
    def even(self, into: Mapping[int, torch.Tensor]) -> Iterator[None]:
        """Within, rows are of trajectories of one length, and their gradients go to these places.

        They are given by a weight's identity; the first axis of each is the trajectory.
        """
        self._into = into
        try:
            yield
        finally:
            self._into = {}

    @torch.no_grad()
    def take(self, weight: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor) -> None:
        """One weight's gradients: of each trajectory rows' x columns, over its own tokens."""
        if self._into:
            place = self._into[id(weight)]
            # By itself such a product is a slice of the row: nothing is gathered or filled up.
            left, right = (each.reshape(len(place), -1, each.shape[1]) for each in (rows, columns))
            torch.bmm(left.transpose(1, 2), right, out=place)
            return
        if self._places is None:
            raise RuntimeError("a row was read backward that nobody has begun")
        left, right = (_with_zeros(each)[self._places] for each in (rows, columns))
        self._gradients[id(weight)] = torch.bmm(left.transpose(1, 2), right)

    def end(self, weights: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The gradients of these weights: of each the first axis is the trajectory."""
        taken, self._gradients, self._places = self._gradients, {}, None
        return [taken[id(weight)] for weight in weights]


def _with_zeros(tokens: torch.Tensor) -> torch.Tensor:
    return torch.cat([tokens, tokens.new_zeros(1, tokens.shape[1])])
