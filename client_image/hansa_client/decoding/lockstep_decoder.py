"""Decoding in lock-step with a model's own KV cache, for models that cannot use KV slots.

Each forward pass adds the same number of columns to all rows, with padding on the left where a row
has fewer new tokens. So any causal LM of transformers works, and rows may have different lengths;
but new episodes begin only when all have ended.
"""

from collections.abc import Sequence

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers.cache_utils import DynamicCache

from hansa_client.decoding.protocol import (
    NO_NOTES,
    PartialTurn,
    StopConditions,
    TurnRequest,
    take_finished,
)
from hansa_client.decoding.sampling import sample
from hansa_client.models.base_model import Base


class LockstepDecoder:
    """Rows of text that one model continues in lock-step."""

    joins = False
    name = "columns"
    notes = NO_NOTES

    def __init__(self, base: Base, rows: int, temperature: float, endings: StopConditions) -> None:
        self.rows = rows
        self._model = base.model
        self._device = base.device
        self._temperature = temperature
        self._endings = endings
        self._writing: dict[int, PartialTurn] = {}
        self._rows: list[int] = []
        self._cache: DynamicCache
        self._mask: torch.Tensor
        self._lengths: torch.Tensor

    def read(self, requests: Sequence[TurnRequest]) -> None:
        """Begin the next turn of these rows; other rows are discarded."""
        self._writing |= {request.row: PartialTurn(request) for request in requests}
        if all(one.request.is_first for one in self._writing.values()):
            self._begin(list(self._writing))
        else:
            self._keep_rows(list(self._writing))
            for place in [self._rows.index(each.row) for each in requests if each.is_first]:
                self._mask[place] = self._lengths[place] = 0  # the past of another episode

    def write(self, patience: int) -> list[tuple[int, list[int]]]:
        """Read the new tokens, then generate until all turns have ended."""
        turns = [self._writing[row] for row in self._rows]
        logits = self._forward(*self._pad([one.request.tokens for one in turns]))
        while True:
            drawn = [0.0 if one.is_over else one.get_uniform() for one in turns]
            uniforms = torch.tensor(drawn, dtype=torch.float64, device=self._device)
            tokens = sample(logits, uniforms, self._temperature)
            for one, token in zip(turns, tokens.tolist(), strict=True):
                if not one.is_over:
                    one.add([token], self._endings)
            if all(one.is_over for one in turns):
                return take_finished(self._writing)
            going = [int(not one.is_over) for one in turns]
            mask = torch.tensor(going, device=self._device)
            logits = self._forward(tokens[:, None], mask[:, None])

    def _begin(self, rows: list[int]) -> None:
        self._rows = rows
        self._cache = DynamicCache(config=self._model.config)
        self._mask = torch.zeros((len(rows), 0), dtype=torch.long, device=self._device)
        self._lengths = torch.zeros(len(rows), dtype=torch.long, device=self._device)

    def _keep_rows(self, rows: list[int]) -> None:
        places = [place for place, row in enumerate(self._rows) if row in rows]
        if len(places) < len(self._rows):
            indices = torch.tensor(places, dtype=torch.long, device=self._device)
            self._cache.batch_select_indices(indices)
            self._mask = self._mask.index_select(0, indices)
            self._lengths = self._lengths.index_select(0, indices)
        self._rows = [self._rows[place] for place in places]

    def _pad(self, rows: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        tokens = [torch.tensor(row, device=self._device) for row in rows]
        real = [torch.ones_like(row) for row in tokens]
        padded, mask = (pad_sequence(each, True, padding_side="left") for each in (tokens, real))
        return padded, mask

    def _forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Logits after the last column."""
        positions = (self._lengths[:, None] + mask.cumsum(1) - 1).clamp_(min=0)
        self._lengths = self._lengths + mask.sum(1)
        self._mask = torch.cat([self._mask, mask], dim=1)
        output = self._model(
            input_ids=tokens,
            attention_mask=self._mask,
            position_ids=positions,
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=1,
        )
        logits: torch.Tensor = output.logits[:, -1]
        return logits
