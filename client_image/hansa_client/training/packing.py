"""Packing: trajectories of any length in one row without padding or attention between them.

Positions restart with each trajectory. Attention uses torch's kernel for variable lengths on a GPU,
and reads one trajectory after another elsewhere, for tests. Models of transformers with plain
causal attention can be packed; others are padded.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention

NAME = "hansa_packed"
"""The name of this attention in transformers."""
_STRANGE = ("attn_logit_softcapping", "sliding_window", "attention_chunk_size")
"""Settings of a model's attention that are not supported here."""
_STEP = 128
"""Lengths of rows are multiples of this, which suits the tiles of a GPU."""
WARM_UPS = 1
"""Runs before a CUDA graph is captured, in which libraries allocate the memory they keep."""


def can_pack(model: Any) -> bool:
    """Whether a model can be packed: its attention is replaceable, and plain in all layers."""
    if not getattr(model, "_supports_attention_backend", False):
        return False
    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    strange = any(getattr(config, name, None) for name in _STRANGE)
    return kinds == {"full_attention"} and not strange and not model.config.is_encoder_decoder


@dataclass(frozen=True)
class Frame:
    """Size of all rows of a training, so that one CUDA graph serves them all."""

    tokens: int
    """Tokens of a row."""
    sequences: int
    """Maximum number of trajectories, with those that pad the row."""
    longest: int
    """Tokens of the longest trajectory."""

    @classmethod
    def from_lengths(cls, rows: Sequence[Sequence[int]]) -> "Frame":
        """The smallest frame for rows whose trajectories have these lengths."""
        tokens = _STEP * -(-max(map(sum, rows)) // _STEP)
        longest = max(map(max, rows))
        return cls(tokens, max(map(len, rows)) + tokens // longest + 1, longest)


@dataclass(frozen=True)
class PackedRow:
    """Trajectories side by side, as a model reads them."""

    tokens: torch.Tensor
    """Their tokens, of shape (1, tokens)."""
    positions: torch.Tensor
    """Each token's position in its trajectory."""
    bounds: torch.Tensor
    """Cumulative lengths of the trajectories, from 0."""
    longest: int
    """Tokens of the longest."""
    lengths: list[int]
    """Tokens of each."""

    @classmethod
    def pack(
        cls, sequences: Sequence[Sequence[int]], device: torch.device, frame: Frame | None = None
    ) -> "PackedRow":
        """A row of these; the rest of a frame is padded with trajectories of zeros.

        Those are no longer than the longest, since attention leaves tokens beyond that undefined.
        """
        lengths = [len(sequence) for sequence in sequences]
        flat = [token for sequence in sequences for token in sequence]
        longest = frame.longest if frame else max(lengths)
        while frame and len(flat) < frame.tokens:
            lengths.append(min(longest, frame.tokens - len(flat)))
            flat += [0] * lengths[-1]
        lengths += [0] * (frame.sequences - len(lengths) if frame else 0)
        places = [place for length in lengths for place in range(length)]
        ends = np.cumsum([0, *lengths], dtype=np.int32)
        return cls(
            torch.tensor([flat], device=device),
            torch.tensor([places], device=device),
            torch.from_numpy(ends).to(device),
            longest,
            lengths,
        )


@contextmanager
def use_packed_attention(model: Any) -> Iterator[None]:
    """Within, a model uses this attention; gradient checkpointing needs it in the backward pass."""
    config = model.config.get_text_config()
    before = config._attn_implementation
    config._attn_implementation = NAME
    try:
        yield
    finally:
        config._attn_implementation = before


class PackedModel:
    """A model that reads rows of several trajectories."""

    def __init__(self, model: Any) -> None:
        from transformers import AttentionInterface

        self._model = model
        self._row: PackedRow  # the last one read; gradient checkpointing needs it, too
        AttentionInterface.register(NAME, self._attend)

    def compute_states(self, row: PackedRow) -> torch.Tensor:
        """The input of the output layer for every token of a row."""
        layer = self._model.get_output_embeddings()
        layer.forward = lambda states: states
        self._row = row
        try:
            with use_packed_attention(self._model):
                output = self._model(
                    input_ids=row.tokens, position_ids=row.positions, use_cache=False
                )
        finally:
            del layer.forward
        states: torch.Tensor = output.logits[0]
        return states

    def record(self, frame: Frame, device: torch.device) -> Callable[[PackedRow], torch.Tensor]:
        """`compute_states` for rows of one frame, with gradients; the next call overwrites them.

        A small model's step is thousands of short kernels, and launching each of them from Python
        takes longer than running it. A CUDA graph launches them all at once.
        """
        blank = PackedRow.pack([[0]], device, frame)
        made = (blank.tokens, blank.positions, blank.bounds)
        trunk = _Trunk(self._model, self, frame).train()
        play: Any = torch.cuda.make_graphed_callables(trunk, made, num_warmup_iters=WARM_UPS)
        return lambda row: play(row.tokens, row.positions, row.bounds)

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
        """Attention as transformers calls it: (1, heads, tokens, size) in, tokens first out."""
        attend = _attend_by_kernel if query.is_cuda else _attend_one_by_one
        return attend(query, key, value, self._row, scaling), None


class _Trunk(torch.nn.Module):
    """The model without its output layer, as a function of tensors alone."""

    def __init__(self, model: Any, packed: PackedModel, frame: Frame) -> None:
        super().__init__()
        self.model = model
        self._packed = packed
        self._frame = frame

    def forward(
        self, tokens: torch.Tensor, positions: torch.Tensor, bounds: torch.Tensor
    ) -> torch.Tensor:
        row = PackedRow(tokens, positions, bounds, self._frame.longest, [])
        return self._packed.compute_states(row)


def _attend_by_kernel(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, row: PackedRow, scale: float | None
) -> torch.Tensor:
    q, k, v = (states[0].transpose(0, 1).contiguous() for states in (query, key, value))
    attended: torch.Tensor = _FlashAttention.apply(q, k, v, row.bounds, row.longest, scale)  # type: ignore[no-untyped-call]
    return attended[None]


class _FlashAttention(torch.autograd.Function):
    """Torch's flash attention within bounds, with a deterministic backward pass.

    In warn-only mode torch's flash attention is not deterministic, and the strict mode would raise
    errors in other layers. So the strict mode is on for this operation alone.
    """

    @staticmethod
    def forward(
        ctx: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        bounds: torch.Tensor,
        longest: int,
        scale: float | None,
    ) -> torch.Tensor:
        out, sums, state, unused, _ = torch.ops.aten._flash_attention_forward(
            query, key, value, bounds, bounds, longest, longest, 0.0, True, False, scale=scale
        )
        ctx.save_for_backward(query, key, value, out, sums, bounds, state, unused)
        ctx.longest, ctx.scale = longest, scale
        attended: torch.Tensor = out
        return attended

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        query, key, value, out, sums, bounds, state, unused = ctx.saved_tensors
        most = ctx.longest
        with _force_determinism():
            of_query, of_key, of_value = torch.ops.aten._flash_attention_backward(
                gradient.contiguous(),
                *(query, key, value, out, sums, bounds, bounds, most, most, 0.0, True),
                *(state, unused),
                scale=ctx.scale,
            )
        return of_query, of_key, of_value, None, None, None


@contextmanager
def _force_determinism() -> Iterator[None]:
    """Within, deterministic algorithms are strict, if they are on."""
    is_watched = torch.are_deterministic_algorithms_enabled()
    warns = torch.is_deterministic_algorithms_warn_only_enabled()
    torch._C._set_deterministic_algorithms(is_watched, warn_only=False)
    try:
        yield
    finally:
        torch._C._set_deterministic_algorithms(is_watched, warn_only=warns)


def _attend_one_by_one(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, row: PackedRow, scale: float | None
) -> torch.Tensor:
    lengths = [length for length in row.lengths if length]
    parts = [torch.split(states, lengths, dim=2) for states in (query, key, value)]
    grouped = query.shape[1] != key.shape[1]
    attended = [
        scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale, enable_gqa=grouped)
        for q, k, v in zip(*parts, strict=True)
    ]
    return torch.cat(attended, dim=2).transpose(1, 2)
