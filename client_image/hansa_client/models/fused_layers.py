"""Fused layers: LoRA layers and norms in fewer kernels than those of PEFT and transformers.

PEFT computes a layer's adapter in fp32 on a copy of its input, and a norm of transformers is seven
kernels. Here the adapter's products are computed in the model's bf16, its weights stay in fp32, and
a norm is one kernel of torch.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import MethodType
from typing import Any

import torch
from torch import nn
from torch.nn.functional import rms_norm

from hansa_client.models.segments import Segments

_NORMS = frozenset({"LlamaRMSNorm", "MistralRMSNorm", "Qwen2RMSNorm", "Qwen3RMSNorm"})
"""Norms of transformers that are plain RMS norms."""


def fuse_layers(
    wrapped: Any, *, dropout: float, segments: Segments | None = None
) -> AbstractContextManager[None]:
    """Within, a model that PEFT has wrapped uses these; with dropout its adapters stay PEFT's.

    `segments` collects the gradients of these adapters for each trajectory.
    """
    return replace_forwards(
        [
            (layer, forward)
            for layer in wrapped.modules()
            if (forward := _choose_forward(layer, dropout, segments))
        ]
    )


@contextmanager
def replace_forwards(forwards: Sequence[tuple[Any, Callable[..., torch.Tensor]]]) -> Iterator[None]:
    """Within, these layers compute by these functions."""
    for layer, forward in forwards:
        layer.forward = MethodType(forward, layer)
    try:
        yield
    finally:
        for layer, _ in forwards:
            del layer.forward


def _choose_forward(
    layer: Any, dropout: float, segments: Segments | None
) -> Callable[..., torch.Tensor] | None:
    """The replacement for a layer's forward; None where it stays as it is."""
    from peft.tuners.lora import Linear

    if type(layer).__name__ in _NORMS:
        return _apply_norm
    is_plain = isinstance(layer, Linear) and type(layer.base_layer) is nn.Linear
    if not is_plain or dropout:
        return None
    if segments is not None:
        segments.covered |= {id(thin["default"].weight) for thin in (layer.lora_A, layer.lora_B)}

    def forward(layer: Any, states: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        a, b = layer.lora_A["default"].weight, layer.lora_B["default"].weight
        base, scale = layer.base_layer, layer.scaling["default"]
        out: torch.Tensor = _FusedLora.apply(states, base.weight, base.bias, a, b, scale, segments)  # type: ignore[no-untyped-call]
        return out

    return forward


def _apply_norm(layer: Any, states: torch.Tensor) -> torch.Tensor:
    return rms_norm(states, layer.weight.shape, layer.weight, layer.variance_epsilon)


class _FusedLora(torch.autograd.Function):
    """x·Wᵀ + s·(x·Aᵀ)·Bᵀ with W frozen."""

    @staticmethod
    def forward(
        ctx: Any,
        states: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        a: torch.Tensor,
        b: torch.Tensor,
        scale: float,
        segments: Segments | None,
    ) -> torch.Tensor:
        flat = states.reshape(-1, states.shape[-1])
        thin = flat @ a.to(flat.dtype).T
        out = nn.functional.linear(flat, weight, bias)
        out.addmm_(thin, b.to(flat.dtype).T, alpha=scale)
        ctx.save_for_backward(flat, thin, weight, a, b)
        ctx.scale, ctx.segments, ctx.thin_weights = scale, segments, (a, b)
        return out.view(*states.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        flat, thin, weight, a, b = ctx.saved_tensors
        rows = gradient.reshape(-1, gradient.shape[-1])
        narrow = (rows @ b.to(rows.dtype)).mul_(ctx.scale)
        of_states = None
        if ctx.needs_input_grad[0]:
            of_states = (rows @ weight).addmm_(narrow, a.to(rows.dtype))
            of_states = of_states.view(*gradient.shape[:-1], -1)
        if ctx.segments is not None:
            whose_a, whose_b = ctx.thin_weights
            if ctx.needs_input_grad[3]:
                ctx.segments.take(whose_a, narrow, flat)
            if ctx.needs_input_grad[4]:
                ctx.segments.take(whose_b, rows, thin * ctx.scale)
            return of_states, None, None, None, None, None, None
        of_a = (narrow.T @ flat).to(a.dtype) if ctx.needs_input_grad[3] else None
        of_b = None
        if ctx.needs_input_grad[4]:
            of_b = (rows.T @ thin).to(b.dtype).mul_(ctx.scale)
        return of_states, None, None, of_a, of_b, None, None
