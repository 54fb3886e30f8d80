"""Decoding a batch of growing texts, with keys and values cached from turn to turn.

Columns are time: each forward pass adds the same number of columns to all rows, padded on the left
and masked where a row has fewer new tokens. So any causal LM of Hugging Face works, and rows need
not be equally long.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hansa_client.model import Base


def new_cache(model: Any) -> Any:
    """An empty cache as the model wants it: the builtin one brings its own."""
    if hasattr(model, "new_cache"):
        return model.new_cache()
    from hansa_client import library_cache

    return library_cache.new_cache(model)


class Decoder:
    """Rows of text that one model goes on writing."""

    def __init__(self, base: Base, rows: int) -> None:
        self._model = base.model
        self._device = base.device
        self._stops = torch.tensor(base.chat.stops, device=base.device)
        self._cache = new_cache(base.model)
        self._mask = torch.zeros((rows, 0), dtype=torch.long, device=base.device)
        self._lengths = torch.zeros(rows, dtype=torch.long, device=base.device)

    def keep(self, rows: Sequence[int]) -> None:
        """Forget all but these rows."""
        if len(rows) == len(self._lengths):
            return
        indices = torch.tensor(rows, dtype=torch.long, device=self._device)
        self._cache.batch_select_indices(indices)
        self._mask = self._mask.index_select(0, indices)
        self._lengths = self._lengths.index_select(0, indices)

    def write(
        self,
        read: Sequence[Sequence[int]],
        budgets: Sequence[int],
        uniforms: NDArray[np.float64],
        temperature: float,
    ) -> list[list[int]]:
        """Read each row's new tokens, then write until a stop token or the row's budget.

        The last token of each row is returned but not read: hand it in with the next ones, which
        saves a forward pass. `uniforms` has one number in [0, 1) for each row and token.
        """
        logits = self._forward(*self._padded(read))
        draws = torch.from_numpy(uniforms).to(self._device)
        left = torch.tensor(budgets, device=self._device)
        active = left > 0
        columns: list[torch.Tensor] = []
        for step in range(max(budgets)):
            tokens = sample(logits, draws[:, step], temperature)
            columns.append(torch.where(active, tokens, -1))
            active = active & ~torch.isin(tokens, self._stops) & (step + 1 < left)
            if not bool(active.any()):
                break
            logits = self._forward(tokens[:, None], active[:, None].long())
        written: list[list[int]] = torch.stack(columns, dim=1).tolist()
        return [[token for token in row if token >= 0] for row in written]

    def _padded(self, rows: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        width = max(len(row) for row in rows)
        tokens = np.zeros((len(rows), width), dtype=np.int64)
        mask = np.zeros((len(rows), width), dtype=np.int64)
        for index, row in enumerate(rows):
            tokens[index, width - len(row) :] = row
            mask[index, width - len(row) :] = 1
        return torch.from_numpy(tokens).to(self._device), torch.from_numpy(mask).to(self._device)

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


def sample(logits: torch.Tensor, uniform: torch.Tensor, temperature: float) -> torch.Tensor:
    """One token for each row by the inverse of its distribution; temperature 0 takes the likeliest.

    A row's token follows from its own number, so that it does not depend on the other rows.
    """
    if temperature == 0:
        return logits.argmax(-1)
    chances = torch.softmax(logits.float() / temperature, dim=-1).double().cumsum(-1)
    threshold = uniform[:, None] * chances[:, -1:]
    found = torch.searchsorted(chances, threshold, right=True)[:, 0]
    return found.clamp_(max=logits.shape[-1] - 1)
