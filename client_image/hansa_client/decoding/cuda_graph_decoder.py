"""Decoding by a CUDA graph: one step of all rows, with sampling, is captured once and replayed.

A small model's step is hundreds of short kernels; launching them one by one takes ten times as long
as running them. The host fetches what was written only every few steps.
"""

from collections.abc import Sequence

import numpy as np
import torch

from hansa_client.decoding.protocol import (
    Decoding,
    PartialTurn,
    StopConditions,
    TurnRequest,
    take_finished,
)
from hansa_client.decoding.sampling import sample
from hansa_client.decoding.slot_decoder import (
    READ_TOKENS,
    SlotDecoder,
    has_enough_finished,
    split_requests,
)
from hansa_client.models.base_model import Base
from hansa_client.models.kv_slots import FlashPlan, KVSlots
from hansa_client.models.slot_attention import forward

_STEPS = 8
"""Steps after which the host fetches what was written."""
_WARM_UPS = 2


class CudaGraphDecoder(SlotDecoder):
    """Rows whose state is on the device: last token, position, budget, whether it is active."""

    name = "graph"

    def __init__(self, base: Base, rows: int, how: Decoding, endings: StopConditions) -> None:
        super().__init__(base, rows, how, endings)
        room = how.max_length + 1
        self._slots = KVSlots(rows, how.max_length, room)
        none = torch.zeros(rows, dtype=torch.long, device=base.device)
        self._last, self._ends = none.clone(), none.clone()
        self._steps, self._budgets = none.clone(), none.clone()
        self._active = none.bool()
        self._written = none.new_zeros((rows, how.max_new_tokens + 1))
        self._uniforms = self._written.double()
        self._stops = none.new_tensor(endings.tokens)
        self._begins = torch.arange(rows + 1, dtype=torch.int32, device=base.device)
        self._graph = torch.cuda.CUDAGraph()

    @classmethod
    def capture(
        cls, base: Base, rows: int, how: Decoding, endings: StopConditions
    ) -> "CudaGraphDecoder | None":
        """A decoder whose step is captured; None where a model's step cannot be."""
        made = cls(base, rows, how, endings)
        try:
            made._record()
        except RuntimeError:  # a model that copies numbers to the host
            torch.cuda.synchronize(base.device)
            return None
        return made

    def read(self, requests: Sequence[TurnRequest]) -> None:
        """Read all but the last of each row's new tokens; the next step reads that one."""
        for some in split_requests(requests, READ_TOKENS["cuda"]):
            self._read(some)
        for request in requests:
            self._writing[request.row] = PartialTurn(request)
        self._send_requests(requests)

    def write(self, patience: int) -> list[tuple[int, list[int]]]:
        """Continue until enough rows have ended their turns."""
        while not has_enough_finished(self._writing, patience):
            for _ in range(_STEPS):
                self._graph.replay()
            self._fetch_written()
        over = take_finished(self._writing)
        for row, tokens in over:
            self._lengths[row] += len(tokens)
        return over

    def _read(self, requests: Sequence[TurnRequest]) -> None:
        spans = [self._make_span(request, len(request.tokens) - 1) for request in requests]
        for span in spans:
            self._lengths[span.row] = span.start
        tokens = [token for request in requests for token in request.tokens[:-1]]
        if filled := [span for span in spans if span.width]:
            self._forward(filled, tokens, torch.zeros(1, dtype=torch.long))

    def _send_requests(self, requests: Sequence[TurnRequest]) -> None:
        """Copy the requests to the device."""
        columns = [(a.row, a.tokens[-1], self._lengths[a.row], a.budget) for a in requests]
        rows, last, ends, budgets = torch.tensor(columns).T.contiguous().to(self._last.device)
        uniforms = torch.from_numpy(np.stack([request.uniforms for request in requests]))
        self._last[rows], self._ends[rows], self._budgets[rows] = last, ends, budgets
        self._steps[rows] = 0
        self._active[rows] = True
        self._uniforms[rows, :-1] = uniforms.to(rows.device)

    def _fetch_written(self) -> None:
        """Fetch what was written since the last look, in one transfer."""
        state = torch.cat([self._steps[:, None], self._written], dim=1).cpu().numpy()
        stopped: list[int] = []
        has_texts = bool(self._endings.texts)
        for row, one in self._writing.items():
            if one.is_over:
                continue
            one.add(state[row, 1 + len(one.tokens) : 1 + state[row, 0]].tolist(), self._endings)
            if one.is_over:
                stopped.append(row)
                has_texts = has_texts or bool(one.request.stop)
        if stopped and has_texts:  # the device knows only stop tokens, and no stop texts
            self._active[torch.tensor(stopped, device=self._active.device)] = False

    def _record(self) -> None:
        """Capture a step while no row is active, which changes nothing that is read."""
        stream = torch.cuda.Stream(self._last.device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(self._last.device))
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UPS):
                self._step()
        torch.cuda.current_stream(self._last.device).wait_stream(stream)
        with torch.cuda.graph(self._graph):
            self._step()

    def _step(self) -> None:
        """One token for every row; inactive rows write the same token again."""
        active, steps = self._active, self._steps[:, None]
        rooms = self._begins * self._slots.room
        used = torch.where(active, self._ends + 1, 1).int()
        plan = FlashPlan(rooms[:-1] + self._ends, self._ends, self._begins, rooms, used, 1)
        logits = forward(self._base.model, self._slots, plan, self._last, self._begins[:-1])
        uniforms = self._uniforms.gather(1, steps)[:, 0]
        drawn = sample(logits, uniforms, self._temperature)
        tokens = torch.where(active, drawn, self._last)
        self._written.scatter_(1, steps, tokens[:, None])
        self._last.copy_(tokens)
        self._steps.add_(active)
        self._ends.add_(active)
        is_stop = (tokens[:, None] == self._stops).any(1)
        active.logical_and_(~is_stop & (self._steps < self._budgets))
