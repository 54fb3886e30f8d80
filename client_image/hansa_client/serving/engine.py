"""The engine: one thread that writes the turns of all requests, as many at a time as it has slots.

A turn that comes while others are written joins their next pass; one that ends, or whose client
has left, frees its slot at once. A pass that fails ends the turns in it and no others.
"""

from __future__ import annotations

import heapq
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from queue import SimpleQueue
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from hansa.core.errors import InputError
from hansa.core.logs import Log
from hansa_client.decoding import choose
from hansa_client.decoding.protocol import StopConditions
from hansa_client.decoding.slot_decoder import read_tokens
from hansa_client.models.base_model import Base
from hansa_client.models.batched_lora import BatchedLora, LoadedAdapter
from hansa_client.serving.batch_decoder import BatchDecoder, RowRequest, Written
from hansa_client.serving.errors import OpenAIError
from hansa_client.serving.metrics import Metrics

MOST_WAITING = 1024
"""Turns that wait for a slot; more are refused, so that nobody waits without end."""


Errand = tuple[Callable[[], None], "SimpleQueue[Exception | None]"]
"""Some work, and who is told when it is done."""


class TurnEvent(NamedTuple):
    """What became of a turn since the last news."""

    choice: int
    """Which of a request's turns."""
    written: list[Written]
    """Tokens that are new."""
    is_over: bool
    """Whether these were the last."""
    has_failed: bool = False
    """Whether the pass failed that it was in."""


@dataclass(eq=False, kw_only=True)
class PendingTurn:
    """One answer that somebody waits for."""

    tokens: list[int]
    """What the model reads first."""
    budget: int
    """Tokens of the answer at most."""
    uniforms: NDArray[np.float64]
    """A random number for each."""
    adapter: LoadedAdapter | None = None
    """None: the base alone."""
    temperature: float = 1.0
    top_p: float = 1.0
    top_logprobs: int | None = None
    stop: tuple[str, ...] = ()
    streams: bool = False
    """Whether each token is news, or only the whole answer."""
    choice: int = 0
    """Which of a request's turns."""
    news: SimpleQueue[TurnEvent] = field(default_factory=SimpleQueue)
    """What the engine tells; all turns of a request may share one."""
    is_cancelled: bool = False
    """Whether nobody waits for it any more."""

    def tell(self, written: list[Written], *, is_over: bool, has_failed: bool = False) -> None:
        """Give news to who waits."""
        self.news.put(TurnEvent(self.choice, written, is_over, has_failed))


class Engine:
    """Slots, the turns in them, and those that wait for one."""

    def __init__(
        self, base: Base, slots: int, max_length: int, threads: int, metrics: Metrics, log: Log
    ) -> None:
        self._base = base
        self.max_length = max_length
        self.lora = BatchedLora(base.model)
        self._wanted_slots = slots
        self._threads = threads
        self._metrics = metrics
        self._log = log
        self._changed = threading.Condition()
        self._waiting: deque[PendingTurn] = deque()
        self._active: dict[int, PendingTurn] = {}
        self._errands: deque[Errand] = deque()
        self._is_closed = False
        metrics.waiting.set_function(lambda: len(self._waiting))
        metrics.active.set_function(lambda: len(self._active))
        self._started: SimpleQueue[Exception | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def start(self) -> None:
        """Begin; raises what keeps this model from being served."""
        self._thread.start()
        problem = self._started.get()
        if problem:
            raise problem

    def submit(self, turns: Iterable[PendingTurn]) -> None:
        """Have turns written; ApiError where too many wait already, or the server ends."""
        turns = list(turns)
        with self._changed:
            if self._is_closed:
                raise OpenAIError(HTTPStatus.SERVICE_UNAVAILABLE, "the server is about to end")
            if len(self._waiting) + len(turns) > MOST_WAITING:
                raise OpenAIError(
                    HTTPStatus.TOO_MANY_REQUESTS,
                    f"{len(self._waiting)} answers wait already, at most {MOST_WAITING} may",
                )
            self._waiting.extend(turns)
            self._changed.notify_all()

    def between_passes(self, work: Callable[[], None]) -> None:
        """Have something done to the model while it is in no pass; raises what that raises."""
        done: SimpleQueue[Exception | None] = SimpleQueue()
        with self._changed:
            if self._is_closed:
                raise OpenAIError(HTTPStatus.SERVICE_UNAVAILABLE, "the server is about to end")
            self._errands.append((work, done))
            self._changed.notify_all()
        problem = done.get()
        if problem:
            raise problem

    def cancel(self, turns: Iterable[PendingTurn]) -> None:
        """Free the slots of turns that nobody waits for."""
        with self._changed:
            for turn in turns:
                turn.is_cancelled = True
            self._changed.notify_all()

    def close(self) -> None:
        """End what is under way, and the thread."""
        with self._changed:
            self._is_closed = True
            while self._errands:
                self._errands.popleft()[1].put(OpenAIError(503, "the server is about to end"))
            for turn in (*self._waiting, *self._active.values()):
                turn.is_cancelled = True
                turn.tell([], is_over=True, has_failed=True)
            self._changed.notify_all()
        self._thread.join()

    @property
    def is_alive(self) -> bool:
        """Whether turns are written."""
        return self._thread.is_alive()

    # -- the thread --------------------------------------------------------------------------------

    def _run(self) -> None:
        torch.set_num_threads(self._threads)  # OpenMP asks each thread for itself
        try:
            with choose.slotted(self._base, self.max_length) as is_slotted:
                if not is_slotted:
                    raise InputError("--model: got a model whose attention cannot use KV slots")
                self._serve()
        except Exception as error:
            self._started.put(error)
            raise

    def _serve(self) -> None:
        rows = choose.fitting_rows(self._base, self._wanted_slots, self.max_length)
        decoder = BatchDecoder(self._base, rows, self.max_length, self.lora)
        self._metrics.slots.set(rows)
        free = list(range(rows))
        self._started.put(None)
        while (fresh := self._admit(free)) is not None:
            if fresh:
                requests = [self._request(row, turn) for row, turn in fresh.items()]
                self._guarded(partial(decoder.read, requests), fresh, decoder, free)
            if decoder.is_writing:
                self._metrics.batch.observe(len(self._active))
                self._guarded(decoder.step, self._active, decoder, free)
            self._tell(decoder, free)

    def _admit(self, free: list[int]) -> dict[int, PendingTurn] | None:
        """The turns that begin now, by row, as many as one pass reads; None: it is over."""
        with self._changed:
            while not (self._waiting or self._active or self._is_closed):
                self._run_errands()
                if not self._waiting:
                    self._changed.wait()
            if self._is_closed:
                return None
            self._run_errands()
            fresh: dict[int, PendingTurn] = {}
            room = read_tokens(self._base.device)
            while self._waiting and free and (room > 0 or not fresh):
                turn = self._waiting.popleft()
                if turn.is_cancelled:
                    self._metrics.cancelled.inc()
                    continue
                room -= len(turn.tokens)
                fresh[heapq.heappop(free)] = turn
            self._active |= fresh
            return fresh

    def _run_errands(self) -> None:
        while self._errands:
            work, done = self._errands.popleft()
            try:
                work()
            except Exception as error:  # who asked for it is told
                done.put(error)
            else:
                done.put(None)

    def _request(self, row: int, turn: PendingTurn) -> RowRequest:
        return RowRequest(
            row=row,
            is_first=True,
            tokens=turn.tokens,
            budget=turn.budget,
            uniforms=turn.uniforms,
            adapter=turn.adapter,
            temperature=turn.temperature,
            top_p=turn.top_p,
            top_logprobs=turn.top_logprobs,
            endings=StopConditions(self._base.chat, turn.stop),
        )

    def _guarded(
        self,
        work: Callable[[], None],
        turns: dict[int, PendingTurn],
        decoder: BatchDecoder,
        free: list[int],
    ) -> None:
        """Do a pass; where it fails, its turns end, and the thread goes on."""
        try:
            work()
        except Exception:  # whatever a model makes of somebody's tokens
            self._log.error("pass_failed", turns=len(turns), traceback=traceback.format_exc())
            for row, turn in list(turns.items()):
                turn.tell([], is_over=True, has_failed=True)
                self._leave(row, decoder, free)

    def _tell(self, decoder: BatchDecoder, free: list[int]) -> None:
        """Give each turn its news, and its slot to the next where it is over."""
        for row, turn in list(self._active.items()):
            if turn.is_cancelled:
                self._metrics.cancelled.inc()
                self._leave(row, decoder, free)
                continue
            state = decoder.turn(row)
            if turn.streams or state.is_over:
                written, state.written = state.written, []
                turn.tell(written, is_over=state.is_over)
            if state.is_over:
                self._leave(row, decoder, free)

    def _leave(self, row: int, decoder: BatchDecoder, free: list[int]) -> None:
        decoder.drop(row)
        with self._changed:
            self._active.pop(row, None)
        heapq.heappush(free, row)
