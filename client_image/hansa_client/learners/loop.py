"""The training loop that all learners share: AdamW, a cosine schedule, micro-batches, no NaN."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from hansa.core.errors import Diverged, PermanentError
from hansa_client.learners import multi_gpu
from hansa_client.learners.base import Trained, TrainingSet
from hansa_client.learners.private import PackedGradients, PrivateRun
from hansa_client.models import lora
from hansa_client.models.base_model import Base
from hansa_client.models.segments import Segments
from hansa_client.training import batches
from hansa_client.training.adamw import AdamW
from hansa_client.training.scoring import (
    PackedScorer,
    Scorer,
    can_pack,
    count_agent_tokens,
    open_scorer,
)


class Objective(Protocol):
    """What a learner minimises: a sum over the examples of a step, divided by the step's size."""

    def begin(self, scorer: Scorer) -> None:
        """Score with the start adapter before the first step, without gradients or dropout."""
        return  # most learners need nothing

    def size(self, step: Sequence[int]) -> float:
        """What the sum over these sequences is divided by."""

    def loss(self, scorer: Scorer, part: Sequence[int]) -> torch.Tensor:
        """The sum over these sequences, which may be a part of a step's."""


def train(
    base: Base, lesson: TrainingSet, progress: Callable[[int, int], None], objective: Objective
) -> Trained:
    """Train by AdamW without weight decay, with a cosine schedule to zero within the round.

    The frozen part of the global adapter is merged into the model meanwhile.
    """
    with lora.merge_adapter(base.model, lesson.adapter, lesson.frozen):
        torch.manual_seed(lesson.seed)
        wrapped = lora.attach(base.model, lesson.adapter, lesson.start)
        lora.train_only(wrapped, lesson.half)
        try:
            checks = lesson.training.gradient_checkpointing
            is_packed = lesson.private is not None and can_pack(wrapped, base.device)
            segments = Segments() if is_packed else None
            with (
                lora.use_fastest_layers(wrapped, lesson.adapter, segments),
                use_checkpointing(wrapped, checks),
                open_scorer(wrapped, base.device, may_record=not checks) as own,
            ):
                run = _make_run(wrapped, own, lesson, objective, segments)
                losses = list(run.run_steps(progress))
        finally:
            wrapped.eval()
            _, tensors = lora.detach(wrapped)
    last = losses[-math.ceil(len(losses) / lesson.training.epochs) :]
    return Trained(
        tensors=tensors,
        loss=sum(loss for loss, _ in last) / sum(size for _, size in last),
        # The half of LoRA that this round does not train keeps its moments for its next round.
        optimizer={**(lesson.optimizer or {}), **run.optimizer.export_state()},
        micro_batch_tokens=run.shrunk,
    )


def _make_run(
    wrapped: Any,
    scorer: Scorer,
    lesson: TrainingSet,
    objective: Objective,
    segments: Segments | None = None,
) -> "_Training | PrivateRun":
    """The training run, with or without differential privacy."""
    training = lesson.training
    named = {lora.to_peft_name(n): w for n, w in wrapped.named_parameters() if w.requires_grad}
    optimizer = AdamW(named, lesson.optimizer or {})
    anchor = Anchor(optimizer.weights, training.proximal)

    def take_step(done: int, total: int) -> None:
        anchor.pull()
        optimizer.step(training.learning_rate * decay_by_cosine(done, total))

    if lesson.private is None:
        return _Training(wrapped, scorer, lesson, objective, optimizer, take_step)

    def loss(index: int) -> torch.Tensor:
        return objective.loss(scorer, [index]) / max(
            1, count_agent_tokens([lesson.sequences[index]])
        )

    run = PrivateRun(wrapped, lesson.private, loss, optimizer, take_step)
    if segments:
        if not {id(weight) for weight in run.weights} <= segments.covered:
            raise PermanentError(
                "spec.adapter.targetModules: got layers that are not plain linear ones, expected "
                "only such with spec.privacy on a GPU: their gradients cannot be kept apart"
            )
        if isinstance(scorer, PackedScorer):
            room = training.micro_batch_tokens or training.batch_tokens
            own = (lesson.sequences, lesson.weights, room, lesson.private.clip)
            run.packed = PackedGradients(scorer, segments, run.weights, *own)
    return run


@dataclass
class _Training:
    """One training from start to end."""

    wrapped: Any
    scorer: Scorer
    lesson: TrainingSet
    objective: Objective
    optimizer: AdamW
    take_step: Callable[[int, int], None]
    shrunk: int = 0
    """Tokens of a micro-batch since memory ran out; 0: it never did."""

    def __post_init__(self) -> None:
        self._lengths = [len(sequence) for sequence in self.lesson.sequences]
        self._room = self.lesson.training.micro_batch_tokens

    def run_steps(self, progress: Callable[[int, int], None]) -> Iterator[tuple[float, float]]:
        """Take the optimizer steps; each yields its summed loss and what it is divided by."""
        self.wrapped.eval()
        with torch.no_grad():
            self.objective.begin(self.scorer)
        self.wrapped.train()
        steps = self.lesson.plan_steps()
        self._expect()
        for done, step in enumerate(steps):
            size = self.objective.size(step)
            own = self._compute_gradients(step, size)
            loss = multi_gpu.sum_gradients(self.optimizer.weights, own)
            if not math.isfinite(loss):
                rate = self.lesson.training.learning_rate
                raise Diverged.at_step(done + 1, len(steps), f"loss {loss}", rate)
            self.take_step(done, len(steps))
            yield loss, size
            progress(done + 1, len(steps))

    def _compute_gradients(self, step: Sequence[int], size: float) -> float:
        """Compute this process's loss and gradient, in micro-batches that fit into memory."""
        while True:
            try:
                return sum(self._backward(part, size) for part in self._split(step, self._room))
            except torch.OutOfMemoryError:
                if not self._shrink():
                    raise
            self._expect()

    def _backward(self, part: Sequence[int], size: float) -> float:
        self.optimizer.copy_gradients()
        loss = self.objective.loss(self.scorer, part)
        loss.div(size).backward()  # type: ignore[no-untyped-call]
        return float(loss.detach())

    def _expect(self) -> None:
        """Tell the scorer the lengths of all rows."""
        steps = self.lesson.plan_steps()
        parts = [part for step in steps for part in self._split(step, self._room)]
        self.scorer.expect([[self._lengths[index] for index in part] for part in parts])

    def _shrink(self) -> bool:
        """Halve the micro-batches of all steps and discard the step's gradients so far.

        Those of later steps are halved, too, since a CUDA graph has room for the largest. False:
        one example alone is too large.
        """
        self.optimizer.forget_gradients()
        torch.cuda.empty_cache()  # freed blocks would stay too small otherwise
        largest = self._measure_largest_part(self._room)
        if largest <= self._measure_largest_part(1):
            return False
        self._room = self.shrunk = largest // 2
        return True

    def _measure_largest_part(self, room: int) -> int:
        return max(
            batches.count_padded_tokens(part, self._lengths)
            for step in self.lesson.plan_steps()
            for part in self._split(step, room)
        )

    def _split(self, step: Sequence[int], room: int) -> list[list[int]]:
        own = multi_gpu.take_share(step, self.lesson.together)
        return batches.split_step(own, self._lengths, self.lesson.together, room) if own else []


@contextmanager
def use_checkpointing(wrapped: Any, is_wanted: bool) -> Iterator[None]:
    """Within, gradient checkpointing is on if wanted; the builtin model does not support it."""
    if not is_wanted or not hasattr(wrapped, "gradient_checkpointing_enable"):
        yield
        return
    wrapped.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    try:
        yield
    finally:
        wrapped.gradient_checkpointing_disable()


class Anchor:
    """FedProx: the gradient of proximal / 2 times the squared distance from the start."""

    def __init__(self, weights: Sequence[torch.Tensor], strength: float) -> None:
        self._strength = strength
        self._weights = list(weights) if strength else []
        self._origins = [weight.detach().clone() for weight in self._weights]

    @torch.no_grad()
    def pull(self) -> None:
        """Add it to the gradients."""
        for weight, origin in zip(self._weights, self._origins, strict=True):
            if weight.grad is not None:
                weight.grad.add_(weight - origin, alpha=self._strength)


def decay_by_cosine(done: int, total: int) -> float:
    """Share of the learning rate at a step: 1 at the first, towards zero after the last."""
    return 0.5 * (1.0 + math.cos(math.pi * done / total))
