"""A decoder for chat requests: each row has its own adapter, temperature, stops and logprobs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from hansa_client.decoding.protocol import Decoding, PartialTurn, StopConditions, TurnRequest
from hansa_client.decoding.sampling import sample_each
from hansa_client.decoding.slot_decoder import SlotDecoder
from hansa_client.models.base_model import Base
from hansa_client.models.batched_lora import BatchedLora, LoadedAdapter
from hansa_client.models.kv_slots import Span


@dataclass(frozen=True, kw_only=True)
class RowRequest(TurnRequest):
    """A turn that has settings of its own."""

    adapter: LoadedAdapter | None
    """None: the base alone."""
    temperature: float
    """0 is greedy."""
    top_p: float
    """Share of the probability to draw from."""
    top_logprobs: int | None
    """Likeliest tokens to return beside each; None: no logprobs."""


class Written(NamedTuple):
    """One token of an answer."""

    token: int
    """Its number."""
    logprob: float = 0.0
    """The model's own, before temperature and top_p; 0 where it was not requested."""
    top: tuple[tuple[int, float], ...] = ()
    """The most likely tokens in its place, with their logprobs."""


@dataclass
class RowTurn(PartialTurn):
    """A turn of such a row that is being written."""

    request: RowRequest
    written: list[Written] = field(default_factory=list)
    """Its tokens, with their logprobs where requested."""


class BatchDecoder(SlotDecoder):
    """Rows of KV slots that requests come to and leave at any step."""

    def __init__(self, base: Base, rows: int, max_length: int, lora: BatchedLora) -> None:
        how = Decoding(temperature=0, max_length=max_length)
        super().__init__(base, rows, how, StopConditions(base.chat))
        self._lora = lora

    def get_turn(self, row: int) -> RowTurn:
        """What a row has written so far."""
        turn = self._writing[row]
        assert isinstance(turn, RowTurn)  # noqa: S101  # `_begin` makes no others
        return turn

    @property
    def is_writing(self) -> bool:
        """Whether any row has more to write."""
        return any(not turn.is_over for turn in self._writing.values())

    def drop(self, row: int) -> None:
        """Forget a row's turn."""
        self._writing.pop(row, None)

    def read(self, requests: Sequence[TurnRequest]) -> None:
        """Read each row's prompt, and draw the first token of its answer."""
        super().read(sorted(requests, key=_get_adapter_id))

    def _list_unfinished(self) -> list[PartialTurn]:
        return sorted(super()._list_unfinished(), key=lambda one: _get_adapter_id(one.request))

    def _begin(self, request: TurnRequest) -> PartialTurn:
        assert isinstance(request, RowRequest)  # noqa: S101  # what the engine makes
        return RowTurn(request)

    def _forward(
        self, spans: Sequence[Span], tokens: Sequence[int], last: torch.Tensor
    ) -> torch.Tensor:
        self._lora.route([(self.get_turn(span.row).request.adapter, span.width) for span in spans])
        return super()._forward(spans, tokens, last)

    def _draw(self, turns: Sequence[PartialTurn], logits: torch.Tensor) -> None:
        rows = [self.get_turn(one.request.row) for one in turns]
        numbers = torch.tensor([one.get_uniform() for one in rows], dtype=torch.float64)
        drawn = sample_each(
            logits,
            numbers.to(self._device),
            [one.request.temperature for one in rows],
            [one.request.top_p for one in rows],
        )
        logprobs = _compute_logprobs(rows, logits, drawn)
        for place, (one, token) in enumerate(zip(rows, drawn.tolist(), strict=True)):
            one.written.append(logprobs.get(place) or Written(token))
            one.add([token], self._endings)


def _get_adapter_id(request: TurnRequest) -> int:
    """Rows of one adapter lie together in a pass: it adds to one slice of them."""
    assert isinstance(request, RowRequest)  # noqa: S101  # what the engine makes
    return id(request.adapter)


def _compute_logprobs(
    rows: Sequence[RowTurn], logits: torch.Tensor, drawn: torch.Tensor
) -> dict[int, Written]:
    """The drawn tokens of the rows that asked for logprobs, by their places."""
    asked = [place for place, one in enumerate(rows) if one.request.top_logprobs is not None]
    if not asked:
        return {}
    chosen = torch.tensor(asked, device=logits.device)
    logprobs = torch.log_softmax(logits[chosen].float(), dim=-1)
    tokens = drawn[chosen]
    own = logprobs.gather(1, tokens[:, None])[:, 0].tolist()
    most = max(rows[place].request.top_logprobs or 0 for place in asked)
    values, likeliest = logprobs.topk(min(most, logprobs.shape[-1]), dim=-1)
    tops = [
        tuple(zip(t, v, strict=True))
        for t, v in zip(likeliest.tolist(), values.tolist(), strict=True)
    ]
    return {
        place: Written(token, logprob, top[: rows[place].request.top_logprobs or 0])
        for place, token, logprob, top in zip(asked, tokens.tolist(), own, tops, strict=True)
    }
