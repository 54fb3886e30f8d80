"""KV cache in slots, for rows that grow independently, and attention over it.

Each row has a slot for its keys and values, without padding, so that rows of any length can be read
and written in one pass, and the next episode can take over a slot at once. A forward pass packs the
new tokens of many rows; only attention needs to know where a row begins.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.nn.functional import scaled_dot_product_attention

_FIRST_ROOM = 128
_FLASH = (torch.bfloat16, torch.float16)
_FLASH_WIDTH = 256
"""Widest head that torch's flash attention takes; all it takes are multiples of 8."""


@dataclass(frozen=True)
class Span:
    """New tokens of one row."""

    row: int
    """Its slot."""
    start: int
    """Tokens that the row has already."""
    width: int
    """Number of new tokens."""


class AttentionPlan(Protocol):
    """Where the tokens of one forward pass are stored, and to which tokens they attend."""

    places: torch.Tensor
    """Index of each token in the flattened slots."""
    positions: torch.Tensor
    """Position of each token in its row."""

    def attend(
        self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scale: float
    ) -> torch.Tensor:
        """Attention of each query to its row up to itself, of shape (tokens, heads, width)."""


class KVSlots:
    """Keys and values of all rows and layers, in slots of equal size."""

    def __init__(self, rows: int, longest: int, room: int = _FIRST_ROOM) -> None:
        self.rows = rows
        self.longest = longest
        """Maximum tokens of a row."""
        self.room = room
        self.plan: AttentionPlan
        """Plan of the current forward pass."""
        self._layers: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def reserve(self, room: int) -> None:
        """Enlarge the slots if necessary; they at least double, so that copying stays rare."""
        if room <= self.room:
            return
        old, self.room = self.room, max(room, 2 * self.room)
        for layer, both in self._layers.items():
            grown = tuple(
                torch.cat([t, t.new_zeros(t.shape[0], self.room - old, *t.shape[2:])], 1)
                for t in both
            )
            self._layers[layer] = (grown[0], grown[1])

    def attend(
        self,
        layer: int,
        query: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        scale: float,
    ) -> torch.Tensor:
        """Store the new keys and values, and attend: (tokens, heads, width).

        Arguments are of shape (1, heads, packed tokens, width), as in transformers.
        """
        query, keys, values = (each[0].transpose(0, 1) for each in (query, keys, values))
        if layer not in self._layers:
            self._layers[layer] = (self._allocate(keys), self._allocate(values))
        own_keys, own_values = self._layers[layer]
        own_keys.flatten(0, 1).index_copy_(0, self.plan.places, keys)
        own_values.flatten(0, 1).index_copy_(0, self.plan.places, values)
        return self.plan.attend(query, own_keys, own_values, scale)

    def _allocate(self, like: torch.Tensor) -> torch.Tensor:
        """An empty slot for each row; zeros, since masked values must be finite, too."""
        return like.new_zeros(self.rows, self.room, *like.shape[1:])


def make_plan(slots: KVSlots, spans: Sequence[Span], model: Any) -> AttentionPlan:
    """The plan of a forward pass over these spans."""
    device = next(model.parameters()).device
    return (
        FlashPlan.from_spans(slots, spans, device)
        if can_use_flash(model)
        else PlainPlan(slots, spans, device)
    )


def can_use_flash(model: Any) -> bool:
    """Whether torch's flash attention supports it: on a GPU since Ampere, in half precision."""
    weight = next(model.parameters())
    if weight.device.type != "cuda" or weight.dtype not in _FLASH or torch.version.hip:
        return False
    width = get_head_width(model)
    is_new = torch.cuda.get_device_capability(weight.device) >= (8, 0)
    return is_new and width <= _FLASH_WIDTH and width % 8 == 0


def get_head_width(model: Any) -> int:
    """Size of one head of attention."""
    config = model.config.get_text_config()
    width: int | None = getattr(config, "head_dim", None)
    return int(width or config.hidden_size // config.num_attention_heads)


def count_token_bytes(model: Any) -> int:
    """Bytes of the keys and values of one token."""
    config = model.config.get_text_config()
    heads: int | None = getattr(config, "num_key_value_heads", None)
    numbers = 2 * config.num_hidden_layers * (heads or config.num_attention_heads)
    return int(numbers * get_head_width(model) * next(model.parameters()).element_size())


def find_places(
    slots: KVSlots, spans: Sequence[Span], device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Index of each token of these spans in the flattened slots, and its position in the row."""
    numbers = torch.tensor([(span.row, span.start, span.width) for span in spans])
    rows, starts, widths = numbers.unbind(1)
    begins = widths.cumsum(0) - widths
    moves = torch.stack([starts - begins + slots.room * rows, starts - begins])
    both = moves.repeat_interleave(widths, dim=1)
    both += torch.arange(both.shape[1])
    both = both.to(device)
    return both[0], both[1]


@dataclass
class FlashPlan:
    """A pass by flash attention with the rows' lengths, without padding or masks."""

    places: torch.Tensor
    positions: torch.Tensor
    begins: torch.Tensor
    """Where each row's queries begin, and the end."""
    slots: torch.Tensor
    """Where its keys begin."""
    used: torch.Tensor
    widest: int

    @classmethod
    def from_spans(cls, slots: KVSlots, spans: Sequence[Span], device: torch.device) -> "FlashPlan":
        """The plan for these spans."""
        begins = [0]
        for span in spans:
            begins.append(begins[-1] + span.width)
        first = [slots.room * span.row for span in spans]
        used = [span.start + span.width for span in spans]
        bounds = torch.tensor([begins, [*first, 0], [*used, 0]], dtype=torch.int32).to(device)
        widest = max(span.width for span in spans)
        where, positions = find_places(slots, spans, device)
        return cls(where, positions, bounds[0], bounds[1], bounds[2, :-1], widest)

    def attend(
        self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scale: float
    ) -> torch.Tensor:
        """Attention of each query to its row."""
        attended: torch.Tensor = torch.ops.aten._flash_attention_forward(
            query,
            keys.flatten(0, 1),
            values.flatten(0, 1),
            self.begins,
            self.slots,
            self.widest,
            keys.shape[1],
            0.0,
            self.widest > 1,
            False,
            scale=scale,
            seqused_k=self.used,
        )[0]
        return attended


class PlainPlan:
    """A pass by torch's general attention, on any device and in any precision.

    Single tokens of most rows are computed together with a mask; otherwise each row is computed
    alone, since padding would cost more than the calls.
    """

    def __init__(self, slots: KVSlots, spans: Sequence[Span], device: torch.device) -> None:
        self.places, self.positions = find_places(slots, spans, device)
        self._spans = spans
        self._is_joint = all(one.width == 1 for one in spans) and 2 * len(spans) > slots.rows
        if self._is_joint:
            self._prepare_joint(slots, device)
        else:
            self._masks = [_build_causal_mask(span, device) for span in spans]

    def attend(
        self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scale: float
    ) -> torch.Tensor:
        """Attention of each query to its row."""
        if self._is_joint:
            return self._attend_jointly(query, keys, values, scale)
        attended, begin = [], 0
        for span, mask in zip(self._spans, self._masks, strict=True):
            own = query[None, begin : begin + span.width].transpose(1, 2)
            end = span.start + span.width
            row_keys = keys[span.row, None, :end].transpose(1, 2)
            row_values = values[span.row, None, :end].transpose(1, 2)
            is_causal = mask is None and span.width > 1
            attended.append(
                _compute_attention(own, row_keys, row_values, mask, scale, is_causal)[0]
            )
            begin += span.width
        return torch.cat(attended, dim=1).transpose(0, 1)

    def _prepare_joint(self, slots: KVSlots, device: torch.device) -> None:
        self._rows = torch.tensor([span.row for span in self._spans], device=device)
        self._longest = max(span.start for span in self._spans) + 1
        last = torch.zeros(slots.rows, dtype=torch.long, device=device)
        last[self._rows] = self.positions
        columns = torch.arange(self._longest, device=device)
        self._mask = (columns[None] <= last[:, None])[:, None, None]

    def _attend_jointly(
        self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scale: float
    ) -> torch.Tensor:
        every = query.new_zeros(len(keys), *query.shape[1:]).index_copy_(0, self._rows, query)
        attended = _compute_attention(
            every[:, :, None],
            keys[:, : self._longest].transpose(1, 2),
            values[:, : self._longest].transpose(1, 2),
            self._mask,
            scale,
            False,
        )
        return attended[:, :, 0].index_select(0, self._rows)


def _compute_attention(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    mask: torch.Tensor | None,
    scale: float,
    is_causal: bool,
) -> torch.Tensor:
    grouped = query.shape[1] != keys.shape[1]
    return scaled_dot_product_attention(
        query, keys, values, attn_mask=mask, scale=scale, is_causal=is_causal, enable_gqa=grouped
    )


def _build_causal_mask(span: Span, device: torch.device) -> torch.Tensor | None:
    """Mask of the keys for the span's queries; None where `is_causal` is enough."""
    if span.width == 1 or span.start == 0:
        return None
    keys = torch.arange(span.start + span.width, device=device)
    return (keys[None, :] <= keys[span.start :, None])[None, None]
