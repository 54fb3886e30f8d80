"""Decoding with KV slots: continuous batching of rows of any length.

A new episode takes over a slot as soon as another has ended.
"""

from collections.abc import Iterator, Sequence

import torch

from hansa_client.decoding.protocol import (
    NO_NOTES,
    Decoding,
    PartialTurn,
    StopConditions,
    TurnRequest,
    take_finished,
)
from hansa_client.decoding.sampling import sample
from hansa_client.models.base_model import Base
from hansa_client.models.kv_slots import KVSlots, Span, make_plan
from hansa_client.models.slot_attention import forward

READ_TOKENS = {"cpu": 2048, "cuda": 32768}
"""Tokens read in one pass; more would need more memory and gain nothing."""


class SlotDecoder:
    """Rows that one model continues; the host gets each token as it is sampled."""

    joins = True
    name = "slots"
    notes = NO_NOTES

    def __init__(self, base: Base, rows: int, how: Decoding, endings: StopConditions) -> None:
        self.rows = rows
        self._base = base
        self._device = base.device
        self._temperature = how.temperature
        self._endings = endings
        self._slots = KVSlots(rows, how.max_length)
        self._lengths = [0] * rows
        self._writing: dict[int, PartialTurn] = {}

    def read(self, requests: Sequence[TurnRequest]) -> None:
        """Read each row's new tokens, and sample the first token of its answer."""
        for some in split_requests(requests, READ_TOKENS[self._device.type]):
            self._writing |= {request.row: self._begin(request) for request in some}
            ends = torch.tensor([len(request.tokens) for request in some]).cumsum(0) - 1
            logits = self._forward(
                [self._make_span(request, len(request.tokens)) for request in some],
                [token for request in some for token in request.tokens],
                ends,
            )
            self._draw([self._writing[request.row] for request in some], logits)

    def write(self, patience: int) -> list[tuple[int, list[int]]]:
        """Continue until enough rows have ended their turns."""
        while not has_enough_finished(self._writing, patience):
            self.step()
        return take_finished(self._writing)

    def step(self) -> None:
        """Sample one more token for every row whose turn has not ended; there must be one."""
        going = self._list_unfinished()
        spans = [Span(one.request.row, self._lengths[one.request.row], 1) for one in going]
        tokens = [one.tokens[-1] for one in going]
        self._draw(going, self._forward(spans, tokens, torch.arange(len(going))))

    def _list_unfinished(self) -> list[PartialTurn]:
        return [one for one in self._writing.values() if not one.is_over]

    def _begin(self, request: TurnRequest) -> PartialTurn:
        return PartialTurn(request)

    def _make_span(self, request: TurnRequest, width: int) -> Span:
        """Where the first tokens of a request go; a new episode takes over the slot."""
        return Span(request.row, 0 if request.is_first else self._lengths[request.row], width)

    def _forward(
        self, spans: Sequence[Span], tokens: Sequence[int], last: torch.Tensor
    ) -> torch.Tensor:
        """Read the spans, and return logits after the tokens whose indexes are in `last`."""
        for span in spans:
            self._lengths[span.row] = span.start + span.width
        self._slots.reserve(max(self._lengths))
        packed = torch.tensor(tokens, device=self._device)
        planned = make_plan(self._slots, spans, self._base.model)
        return forward(self._base.model, self._slots, planned, packed, last.to(self._device))

    def _draw(self, turns: Sequence[PartialTurn], logits: torch.Tensor) -> None:
        numbers = [one.get_uniform() for one in turns]
        uniforms = torch.tensor(numbers, dtype=torch.float64, device=self._device)
        drawn = sample(logits, uniforms, self._temperature).tolist()
        for one, token in zip(turns, drawn, strict=True):
            one.add([token], self._endings)


def has_enough_finished(writing: dict[int, PartialTurn], patience: int) -> bool:
    """Whether one in `patience` rows has ended its turn."""
    over = sum(one.is_over for one in writing.values())
    return patience * over >= len(writing)


def split_requests(requests: Sequence[TurnRequest], most: int) -> Iterator[list[TurnRequest]]:
    """The requests in groups of at most `most` tokens; one that is longer is alone."""
    group: list[TurnRequest] = []
    size = 0
    for request in requests:
        if group and size + len(request.tokens) > most:
            yield group
            group, size = [], 0
        group.append(request)
        size += len(request.tokens)
    if group:
        yield group
