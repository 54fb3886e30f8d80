"""Which decoder: the fastest way to write turns that a model and a machine allow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from hansa.runtime.capacity import available_memory
from hansa_client.decoding.protocol import Decoder, Decoding, StopConditions
from hansa_client.decoding.slot_decoder import SlotDecoder
from hansa_client.models import kv_slots, slot_attention

if TYPE_CHECKING:
    from hansa_client.models.base_model import Base

_SHARE = 0.8
"""Of the free memory, for keys and values."""
_ALIKE = 0.05
"""Logits by slots may differ from a plain pass by this share of their size: bf16 rounds to 1 %."""
_PROBE = (9, 4)
"""Tokens of the rows that a model is tried with."""


@contextmanager
def decoding(base: Base, rows: int, how: Decoding) -> Iterator[Decoder]:
    """Whoever writes the turns, until the block ends."""
    endings = StopConditions(base.chat, how.stop)
    with slotted(base, how.max_length) as is_slotted:
        if is_slotted:
            yield _by_slots(base, rows, how, endings)
            return
        from hansa_client.decoding.lockstep_decoder import LockstepDecoder

        yield LockstepDecoder(base, rows, how.temperature, endings)


@contextmanager
def slotted(base: Base, longest: int) -> Iterator[bool]:
    """Within, this thread only infers, and the model's attention looks into KV slots if it can."""
    with _free_algorithms(base.device), torch.inference_mode():
        if not fits(base.model, longest):
            yield False
            return
        with slot_attention.installed(base.model):
            yield True


def fits(model: Any, longest: int) -> bool:
    """Whether the model writes with slots what it writes without: it is tried on two rows."""
    if hasattr(model, "reads_kv_slots"):
        return True
    device = next(model.parameters()).device
    known = model.get_input_embeddings().num_embeddings
    rows = [torch.arange(1, 1 + width, device=device) * 7 % known for width in _PROBE]
    with slot_attention.installed(model) as is_installed:
        if not is_installed:
            return False
        try:
            by_slots = _by_parts(model, rows, longest)
        except Exception:  # the library's models are many, and say no in as many ways
            return False
    plain = torch.stack([model(input_ids=row[None], use_cache=False).logits[0, -1] for row in rows])
    distance = (by_slots.float() - plain.float()).norm() / plain.float().norm()
    return bool(distance < _ALIKE)


def _by_parts(model: Any, rows: list[torch.Tensor], longest: int) -> torch.Tensor:
    """Logits after the rows, of which the last token is read in a pass of its own."""
    kept = kv_slots.KVSlots(len(rows), longest, room=max(len(tokens) for tokens in rows))
    spans = [kv_slots.Span(row, 0, len(tokens) - 1) for row, tokens in enumerate(rows)]
    last = torch.arange(len(rows), device=rows[0].device)
    before = torch.cat([tokens[:-1] for tokens in rows])
    slot_attention.forward(model, kept, kv_slots.plan(kept, spans, model), before, last)
    spans = [kv_slots.Span(span.row, span.width, 1) for span in spans]
    ends = torch.stack([tokens[-1] for tokens in rows])
    return slot_attention.forward(model, kept, kv_slots.plan(kept, spans, model), ends, last)


def _by_slots(base: Base, rows: int, how: Decoding, endings: StopConditions) -> Decoder:
    if base.device.type != "cuda":
        return SlotDecoder(base, rows, how, endings)
    rows = fitting_rows(base, rows, how.max_length)
    if kv_slots.takes_flash(base.model):
        from hansa_client.decoding.cuda_graph_decoder import CudaGraphDecoder

        return CudaGraphDecoder.captured(base, rows, how, endings) or SlotDecoder(
            base, rows, how, endings
        )
    return SlotDecoder(base, rows, how, endings)


def fitting_rows(base: Base, wanted: int, longest: int) -> int:
    """Rows of that length for whose keys and values the device's memory has room."""
    free = available_memory()
    if base.device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(base.device)
    fitting = int(_SHARE * free / (kv_slots.token_bytes(base.model) * (longest + 1)))
    return max(1, min(wanted, fitting))


@contextmanager
def _free_algorithms(device: torch.device) -> Iterator[None]:
    """No slow detours on a GPU for the sake of order: here no place is written twice in a pass."""
    before = torch.get_deterministic_debug_mode()
    if device.type == "cuda":
        torch.set_deterministic_debug_mode("default")
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(before)
