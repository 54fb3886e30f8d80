"""Batched LoRA: each row of a forward pass has its own adapter on the same base model.

The base model computes all rows at once, and each adapter adds its B·A·x to the tokens of its rows.
An adapter that is merged into the weights would be faster, but would apply to all rows.
"""

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
    """A model whose linear layers add the adapters of a pass; not thread-safe."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._hooked: set[str] = set()
        self._pass: list[tuple[LoadedAdapter, slice]] = []

    def prepare(self, sizes: Mapping[str, tuple[int, int]]) -> None:
        """Prepare layers for adapters with these outputs and inputs, before the first pass."""
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
        """Copy an adapter whose layers were prepared to the device."""
        weight = next(self._model.parameters())
        layers: dict[str, Pair] = {}
        for module in lora.target_names(tensors):
            names = lora.tensor_names(module)
            a, b = (torch.from_numpy(tensors[name].T.copy()) for name in names)
            layers[module] = (a.to(weight), (b * scale).to(weight))
        return LoadedAdapter(layers)

    def route(self, rows: Sequence[tuple[LoadedAdapter | None, int]]) -> None:
        """Set each row's adapter and number of tokens for the next pass.

        Adjacent rows with the same adapter are one product, so sort them.
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
        """Add the adapters' products to a layer's output; a pass is one packed row."""
        states, added = inputs[0].flatten(0, -2), output.view(-1, output.shape[-1])
        for loaded, tokens in self._pass:
            if pair := loaded.layers.get(module):
                added[tokens].addmm_(states[tokens] @ pair[0], pair[1])
