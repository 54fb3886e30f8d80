"""The cache of a model of transformers, with growing layers where it attends to everything."""

from typing import Any

import torch
from transformers.cache_utils import DynamicCache, DynamicLayer

from hansa_client.cache import Growing


class GrowingLayer(Growing, DynamicLayer):  # type: ignore[no-untyped-call]
    """A layer of the library's cache that doubles its room."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append the new columns; the returned tensors are views of the filled part."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        return self.append(key_states, value_states)


def new_cache(model: Any) -> DynamicCache:
    """An empty cache as the model wants it."""
    cache = DynamicCache(config=model.config)
    cache.layers = [growing(layer) for layer in cache.layers]
    return cache


def growing(layer: Any) -> Any:
    """The layer, or a growing one in place of one that keeps everything."""
    return GrowingLayer() if type(layer) is DynamicLayer else layer  # type: ignore[no-untyped-call]
