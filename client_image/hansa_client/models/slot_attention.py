"""Attention over KV slots for any model of transformers that lets its attention be chosen."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from hansa_client.models.kv_slots import AttentionPlan, KVSlots

_NAME = "hansa_slots"
_UNKNOWN = ("softcap", "s_aux", "position_bias", "head_mask")
"""Arguments of attention that are not supported here."""
_current: list[KVSlots] = []


def forward(
    model: Any, slots: KVSlots, plan: AttentionPlan, tokens: torch.Tensor, last: torch.Tensor
) -> torch.Tensor:
    """Logits after the tokens whose indexes are in `last`; tokens are packed as planned."""
    slots.plan = plan
    named = {"input_ids": tokens[None], "position_ids": plan.positions[None]}
    if hasattr(model, "reads_kv_slots"):
        logits = model(**named, slots=slots, logits_to_keep=last).logits
    else:
        _current[:] = [slots]
        logits = model(**named, use_cache=False, logits_to_keep=last).logits
    row: torch.Tensor = logits[0]
    return row


@contextmanager
def install(model: Any) -> Iterator[bool]:
    """Within, the model's attention uses KV slots; yields whether it can."""
    if hasattr(model, "reads_kv_slots"):
        yield True
        return
    from transformers import AttentionInterface

    AttentionInterface.register(_NAME, _attend)
    before = model.config._attn_implementation
    try:
        model.set_attn_implementation(_NAME)
        yield model.config._attn_implementation == _NAME
    finally:
        model.set_attn_implementation(before)
        _current.clear()


def _attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    **more: Any,
) -> tuple[torch.Tensor, None]:
    """Attention as transformers calls it: one row, heads, tokens, width."""
    slots = _current[0]
    if any(more.get(name) is not None for name in _UNKNOWN):
        raise NotImplementedError("unsupported arguments of attention")
    if sliding_window is not None and sliding_window < slots.longest:
        raise NotImplementedError("unsupported sliding window")
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    return slots.attend(module.layer_idx, query, key, value, scale)[None], None
