"""Packing: trajectories of any length in one row without padding, none of which sees another.

Positions begin anew with each trajectory, and attention stays within it: on a GPU by torch's kernel
for rows of several lengths, elsewhere one trajectory after another, which is for tests. Models of
transformers whose attention is the plain causal one can be packed; all others are padded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

NAME = "hansa_packed"
"""What transformers knows this attention by."""
_STRANGE = ("attn_logit_softcapping", "sliding_window", "attention_chunk_size")
"""Settings of a model's attention that this one does not know."""


def fits(model: Any) -> bool:
    """Whether a model can be packed: its attention can be exchanged, and is plain in all layers."""
    if not getattr(model, "_supports_attention_backend", False):
        return False
    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    strange = any(getattr(config, name, None) for name in _STRANGE)
    return kinds == {"full_attention"} and not strange and not model.config.is_encoder_decoder


class Row:
    """Trajectories side by side, as a model reads them."""

    def __init__(self, sequences: Sequence[Sequence[int]], device: torch.device) -> None:
        lengths = [len(sequence) for sequence in sequences]
        flat = [token for sequence in sequences for token in sequence]
        places = [place for length in lengths for place in range(length)]
        self.tokens = torch.tensor([flat], device=device)
        self.positions = torch.tensor([places], device=device)
        self.longest = max(lengths)
        self.lengths = lengths
        ends = torch.tensor([0, *lengths], device=device)
        self.bounds = ends.cumsum(0).to(torch.int32)


class Packed:
    """A model that reads rows of several trajectories."""

    def __init__(self, model: Any) -> None:
        from transformers import AttentionInterface

        self._model = model
        self._row: Row  # set by `reading`
        AttentionInterface.register(NAME, self._attend)

    @contextmanager
    def reading(self, row: Row) -> Iterator[None]:
        """Within, all attention stays inside the row's trajectories.

        The row stays known afterwards: recomputed activations ask for it in the backward pass.
        """
        config = self._model.config.get_text_config()
        before = config._attn_implementation
        self._row = row
        config._attn_implementation = NAME
        try:
            yield
        finally:
            config._attn_implementation = before

    def _attend(
        self,
        module: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,
        scaling: float | None = None,
        **rest: Any,
    ) -> tuple[torch.Tensor, None]:
        """As transformers calls it: (1, heads, tokens, size) in, tokens before heads out."""
        attend = _by_kernel if query.is_cuda else _one_by_one
        return attend(query, key, value, self._row, scaling), None


def _by_kernel(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, row: Row, scale: float | None
) -> torch.Tensor:
    from torch.nn.attention.varlen import varlen_attn

    q, k, v = (states[0].transpose(0, 1).contiguous() for states in (query, key, value))
    ends, most = row.bounds, row.longest
    seen: Any = varlen_attn(q, k, v, ends, ends, most, most, scale=scale, window_size=(-1, 0))
    found: torch.Tensor = seen[None]
    return found


def _one_by_one(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, row: Row, scale: float | None
) -> torch.Tensor:
    parts = [torch.split(states, row.lengths, dim=2) for states in (query, key, value)]
    grouped = query.shape[1] != key.shape[1]
    seen = [
        scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale, enable_gqa=grouped)
        for q, k, v in zip(*parts, strict=True)
    ]
    return torch.cat(seen, dim=2).transpose(1, 2)
