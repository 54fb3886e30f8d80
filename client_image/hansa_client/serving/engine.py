"""The engine: one thread that writes the turns of all requests, as many at a time as it has slots.

A turn that comes while others are written joins their next pass; one that ends, or whose client
has left, frees its slot at once. A pass that fails ends the turns in it and no others.
"""

import heapq
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from http import HTTPStatus
from queue import SimpleQueue
from typing import NamedTuple

import torch

from hansa.core.errors import InputError
from hansa.core.logs import Log
from hansa_client.decoding import choose
from hansa_client.decoding.slot_decoder import READ_TOKENS
from hansa_client.models.base_model import Base
from hansa_client.models.batched_lora import BatchedLora
from hansa_client.serving.batch_decoder import BatchDecoder, RowRequest, Written
from hansa_client.serving.errors import OpenAIError, make_shutdown_error
from hansa_client.serving.metrics import Metrics

MOST_WAITING = 1024
"""Turns that wait for a slot; more are refused, so that none waits without end."""
WorkItem = tuple[Callable[[], None], "SimpleQueue[Exception | None]"]
"""Some work, and where its result goes: None, or the exception that it raised."""


class TurnEvent(NamedTuple):
    """What became of a turn since its last event."""

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
    """One answer that a request waits for."""

    request: RowRequest
    """What is decoded; the engine chooses its row."""
    streams: bool = False
    """Whether each token is an event, or only the whole answer."""
    choice: int = 0
    """Which of a request's turns."""
    news: SimpleQueue[TurnEvent] = field(default_factory=SimpleQueue)
    """Events of the engine; all turns of a request may share one queue."""
    is_cancelled: bool = False
    """Whether its client has disconnected."""

    def notify(self, written: list[Written], *, is_over: bool, has_failed: bool = False) -> None:
        """Queue an event for the request's thread."""
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
        self._free: list[int] = []
        self._work_items: deque[WorkItem] = deque()
        self._is_closed = False
        metrics.waiting.set_function(lambda: len(self._waiting))
        metrics.active.set_function(lambda: len(self._active))
        self._started: SimpleQueue[Exception | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def start(self) -> None:
        """Start the thread; raises what keeps this model from being served."""
        self._thread.start()
        problem = self._started.get()
        if problem:
            raise problem

    def submit(self, turns: Iterable[PendingTurn]) -> None:
        """Queue turns; OpenAIError when the queue is full or the server is shutting down."""
        turns = list(turns)
        with self._changed:
            self._check_open()
            if len(self._waiting) + len(turns) > MOST_WAITING:
                raise OpenAIError(
                    HTTPStatus.TOO_MANY_REQUESTS,
                    f"{len(self._waiting)} answers wait already, at most {MOST_WAITING} may",
                )
            self._waiting.extend(turns)
            self._changed.notify_all()

    def run_between_passes(self, work: Callable[[], None]) -> None:
        """Run some work on the model between two forward passes; raises what that raises."""
        done: SimpleQueue[Exception | None] = SimpleQueue()
        with self._changed:
            self._check_open()
            self._work_items.append((work, done))
            self._changed.notify_all()
        problem = done.get()
        if problem:
            raise problem

    def _check_open(self) -> None:
        if self._is_closed:
            raise make_shutdown_error()

    def cancel(self, turns: Iterable[PendingTurn]) -> None:
        """Free the slots of turns whose client has disconnected."""
        with self._changed:
            for turn in turns:
                turn.is_cancelled = True
            self._changed.notify_all()

    def close(self) -> None:
        """End what is under way, and the thread."""
        with self._changed:
            self._is_closed = True
            while self._work_items:
                self._work_items.popleft()[1].put(make_shutdown_error())
            for turn in (*self._waiting, *self._active.values()):
                turn.is_cancelled = True
                turn.notify([], is_over=True, has_failed=True)
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
            with choose.use_slots(self._base, self.max_length) as is_slotted:
                if not is_slotted:
                    raise InputError("--model: got a model whose attention cannot use KV slots")
                self._serve()
        except Exception as error:
            self._started.put(error)
            raise

    def _serve(self) -> None:
        rows = choose.count_fitting_rows(self._base, self._wanted_slots, self.max_length)
        decoder = BatchDecoder(self._base, rows, self.max_length, self.lora)
        self._free = list(range(rows))
        self._metrics.slots.set(rows)
        self._started.put(None)
        while (fresh := self._admit()) is not None:
            if fresh:
                requests = [replace(turn.request, row=row) for row, turn in fresh.items()]
                self._run_pass(partial(decoder.read, requests), fresh, decoder)
            if decoder.is_writing:
                self._metrics.batch.observe(len(self._active))
                self._run_pass(decoder.step, self._active, decoder)
            self._notify_all(decoder)

    def _admit(self) -> dict[int, PendingTurn] | None:
        """The turns that begin now, by row, as many as one pass reads; None: it is over."""
        with self._changed:
            while not (self._waiting or self._active or self._is_closed):
                self._run_work_items()
                if not self._waiting:
                    self._changed.wait()
            if self._is_closed:
                return None
            self._run_work_items()
            fresh: dict[int, PendingTurn] = {}
            room = READ_TOKENS[self._base.device.type]
            while self._waiting and self._free and (room > 0 or not fresh):
                turn = self._waiting.popleft()
                if turn.is_cancelled:
                    self._metrics.cancelled.inc()
                    continue
                room -= len(turn.request.tokens)
                fresh[heapq.heappop(self._free)] = turn
            self._active |= fresh
            return fresh

    def _run_work_items(self) -> None:
        while self._work_items:
            work, done = self._work_items.popleft()
            try:
                work()
                done.put(None)
            except Exception as error:  # raised in the thread that asked for it
                done.put(error)

    def _run_pass(
        self, work: Callable[[], None], turns: dict[int, PendingTurn], decoder: BatchDecoder
    ) -> None:
        """Run a forward pass; where it fails, its turns end, and the thread continues."""
        try:
            work()
        except Exception:  # a model may raise anything on a client's tokens
            self._log.error("pass_failed", turns=len(turns), traceback=traceback.format_exc())
            for row, turn in list(turns.items()):
                turn.notify([], is_over=True, has_failed=True)
                self._free_row(row, decoder)

    def _notify_all(self, decoder: BatchDecoder) -> None:
        """Send each turn its new tokens, and free the slots of those that are over."""
        for row, turn in list(self._active.items()):
            if turn.is_cancelled:
                self._metrics.cancelled.inc()
                self._free_row(row, decoder)
                continue
            state = decoder.get_turn(row)
            if turn.streams or state.is_over:
                written, state.written = state.written, []
                turn.notify(written, is_over=state.is_over)
            if state.is_over:
                self._free_row(row, decoder)

    def _free_row(self, row: int, decoder: BatchDecoder) -> None:
        decoder.drop(row)
        with self._changed:
            self._active.pop(row, None)
        heapq.heappush(self._free, row)
