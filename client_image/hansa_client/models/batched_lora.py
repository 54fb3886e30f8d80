"""Batched LoRA: the rows of one forward pass have an adapter each, and share the base's weights.

Merging an adapter into the weights costs a pass nothing, but then all rows have it. Here the base
computes for all rows at once, and each adapter adds its B·A·x to the tokens of its own rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import torch

from hansa.adapter import lora
from hansa.adapter.lora import Tensors
from hansa.core.errors import InputError

Pair = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True, eq=False)
class LoadedAdapter:
    """An adapter on the model's device, in its precision."""

    layers: dict[str, Pair]
    """By module: A transposed, and B transposed and scaled."""


class BatchedLora:
    """A model whose linear layers add the adapters of a pass; one thread at a time uses it."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._hooked: set[str] = set()
        self._pass: list[tuple[LoadedAdapter, slice]] = []

    def prepare(self, sizes: Mapping[str, tuple[int, int]]) -> None:
        """Make layers ready for adapters of these outputs and inputs, before the first pass."""
        for module, size in sizes.items():
            try:
                layer = self._model.get_submodule(module)
            except AttributeError:
                raise InputError(f"got {module}, which this base model lacks") from None
            own = tuple(layer.weight.shape)
            if type(layer).__name__ == "Conv1D":  # GPT-2 keeps its weights transposed
                own = own[::-1]
            if size != own:
                raise InputError(f"got {size} for {module}, expected {own} for this base model")
            if module not in self._hooked:
                layer.register_forward_hook(partial(self._add, module))
                self._hooked.add(module)

    def load(self, tensors: Tensors, scale: float) -> LoadedAdapter:
        """Bring an adapter whose layers were prepared to the device."""
        weight = next(self._model.parameters())
        layers: dict[str, Pair] = {}
        for module in lora.target_names(tensors):
            names = lora.names(module)
            a, b = (torch.from_numpy(tensors[name].T.copy()) for name in names)
            layers[module] = (a.to(weight), (b * scale).to(weight))
        return LoadedAdapter(layers)

    def route(self, rows: Sequence[tuple[LoadedAdapter | None, int]]) -> None:
        """For the next pass: each row's adapter, and how many tokens of the pass are its.

        Rows of one adapter that lie together are one product: sort them.
        """
        self._pass = []
        begin = 0
        for loaded, group in groupby(rows, key=lambda row: row[0]):
            end = begin + sum(width for _, width in group)
            if loaded is not None:
                self._pass.append((loaded, slice(begin, end)))
            begin = end

    def _add(
        self, module: str, _: Any, inputs: tuple[torch.Tensor, ...], output: torch.Tensor
    ) -> None:
        """Add what the adapters of this pass have for a layer; a pass is one packed row."""
        states, added = inputs[0].flatten(0, -2), output.view(-1, output.shape[-1])
        for loaded, tokens in self._pass:
            if pair := loaded.layers.get(module):
                added[tokens].addmm_(states[tokens] @ pair[0], pair[1])
