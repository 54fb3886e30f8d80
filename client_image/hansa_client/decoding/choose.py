"""Choosing a decoder: the fastest way to generate turns that a model and a machine support."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from hansa.runtime.capacity import measure_available_memory
from hansa_client.decoding.protocol import Decoder, Decoding, StopConditions
from hansa_client.decoding.slot_decoder import SlotDecoder
from hansa_client.models import kv_slots, slot_attention

if TYPE_CHECKING:
    from hansa_client.models.base_model import Base

_SHARE = 0.8
"""Share of the free memory for keys and values."""
_ALIKE = 0.05
"""Allowed relative difference between logits with slots and without: bf16 rounds to 1 %."""
_PROBE = (9, 4)
"""Lengths of the rows with which a model is tried."""


@contextmanager
def open_decoder(base: "Base", rows: int, how: Decoding) -> Iterator[Decoder]:
    """The decoder for a model, until the block ends."""
    endings = StopConditions(base.chat, how.stop)
    with use_slots(base, how.max_length) as is_slotted:
        if is_slotted:
            yield _make_slot_decoder(base, rows, how, endings)
            return
        from hansa_client.decoding.lockstep_decoder import LockstepDecoder

        yield LockstepDecoder(base, rows, how.temperature, endings)


@contextmanager
def use_slots(base: "Base", longest: int) -> Iterator[bool]:
    """Within, torch is in inference mode, and the model's attention uses KV slots if it can."""
    with _relax_determinism(base.device), torch.inference_mode():
        if not can_use_slots(base.model, longest):
            yield False
            return
        with slot_attention.install(base.model):
            yield True


def can_use_slots(model: Any, longest: int) -> bool:
    """Whether the model computes the same logits with KV slots as without, tried on two rows."""
    if hasattr(model, "reads_kv_slots"):
        return True
    device = next(model.parameters()).device
    known = model.get_input_embeddings().num_embeddings
    rows = [torch.arange(1, 1 + width, device=device) * 7 % known for width in _PROBE]
    with slot_attention.install(model) as is_installed:
        if not is_installed:
            return False
        try:
            by_slots = _compute_by_slots(model, rows, longest)
        except Exception:  # models of transformers may raise anything
            return False
    plain = torch.stack([model(input_ids=row[None], use_cache=False).logits[0, -1] for row in rows])
    distance = (by_slots.float() - plain.float()).norm() / plain.float().norm()
    return bool(distance < _ALIKE)


def _compute_by_slots(model: Any, rows: list[torch.Tensor], longest: int) -> torch.Tensor:
    """Logits after the rows, whose last tokens are read in a second pass."""
    kept = kv_slots.KVSlots(len(rows), longest, room=max(len(tokens) for tokens in rows))
    spans = [kv_slots.Span(row, 0, len(tokens) - 1) for row, tokens in enumerate(rows)]
    last = torch.arange(len(rows), device=rows[0].device)
    before = torch.cat([tokens[:-1] for tokens in rows])
    slot_attention.forward(model, kept, kv_slots.make_plan(kept, spans, model), before, last)
    spans = [kv_slots.Span(span.row, span.width, 1) for span in spans]
    ends = torch.stack([tokens[-1] for tokens in rows])
    return slot_attention.forward(model, kept, kv_slots.make_plan(kept, spans, model), ends, last)


def _make_slot_decoder(base: "Base", rows: int, how: Decoding, endings: StopConditions) -> Decoder:
    if base.device.type == "cuda":
        rows = count_fitting_rows(base, rows, how.max_length)
        if kv_slots.can_use_flash(base.model):
            from hansa_client.decoding.cuda_graph_decoder import CudaGraphDecoder

            if decoder := CudaGraphDecoder.capture(base, rows, how, endings):
                return decoder
    return SlotDecoder(base, rows, how, endings)


def count_fitting_rows(base: "Base", wanted: int, longest: int) -> int:
    """Rows of this length whose keys and values fit into the device's memory, at most `wanted`."""
    free = measure_available_memory()
    if base.device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(base.device)
    fitting = int(_SHARE * free / (kv_slots.count_token_bytes(base.model) * (longest + 1)))
    return max(1, min(wanted, fitting))


@contextmanager
def _relax_determinism(device: torch.device) -> Iterator[None]:
    """Within, a GPU needs no deterministic algorithms: a pass writes no element twice."""
    before = torch.get_deterministic_debug_mode()
    if device.type == "cuda":
        torch.set_deterministic_debug_mode("default")
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(before)
