"""success-sft: next-token loss on the agent's own tokens of kept trajectories, as in Fed-SE."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from hansa_client import lora, trajectory
from hansa_client.learners.base import Lesson, Trained
from hansa_client.model import Base
from hansa_client.optimizer import AdamW


def train(base: Base, lesson: Lesson, progress: Callable[[int, int], None]) -> Trained:
    """AdamW without weight decay, from the learning rate to zero by a cosine within the round.

    The optimizer's state ends with the round: the next one starts from another adapter, the mean.
    """
    with lora.merged(base.model, lesson.adapter, lesson.frozen):
        return _train(base, lesson, progress)


def _train(base: Base, lesson: Lesson, progress: Callable[[int, int], None]) -> Trained:
    torch.manual_seed(lesson.seed)
    steps = lesson.steps()
    wrapped = lora.attach(base.model, lesson.adapter, lesson.start)
    lora.train_only(wrapped, lesson.half)
    try:
        wrapped.train()
        losses: list[tuple[float, int]] = []
        with lora.folded(wrapped, lesson.adapter):
            for loss in _steps(wrapped, base.device, lesson, steps):
                losses.append(loss)
                progress(len(losses), len(steps))
    finally:
        wrapped.eval()
        _, tensors = lora.detach(wrapped)
    last = losses[-math.ceil(len(losses) / lesson.training.epochs) :]
    total = sum(tokens for _, tokens in last)
    return Trained(tensors, sum(loss for loss, _ in last) / total)


def _steps(
    wrapped: Any, device: torch.device, lesson: Lesson, steps: Sequence[Sequence[int]]
) -> Iterator[tuple[float, int]]:
    """Take the optimizer steps; each yields its summed loss and the tokens it is summed over."""
    weights = [weight for weight in wrapped.parameters() if weight.requires_grad]
    rate = lesson.training.learning_rate
    optimizer = AdamW(weights)
    anchor = Anchor(weights, lesson.training.proximal)
    for done, step in enumerate(steps):
        loss, count = batch_loss(wrapped, device, [lesson.sequences[index] for index in step])
        loss.div(count).backward()  # type: ignore[no-untyped-call]
        anchor.pull()
        optimizer.step(rate * cosine(done, len(steps)))
        yield float(loss.detach()), count


class Anchor:
    """FedProx: the gradient of proximal / 2 times the squared distance from the start."""

    def __init__(self, weights: Sequence[torch.Tensor], strength: float) -> None:
        self._strength = strength
        self._weights = list(weights) if strength else []
        self._origins = [weight.detach().clone() for weight in self._weights]

    @torch.no_grad()
    def pull(self) -> None:
        """Add it to the gradients there are."""
        for weight, origin in zip(self._weights, self._origins, strict=True):
            if weight.grad is not None:
                weight.grad.add_(weight - origin, alpha=self._strength)


def cosine(done: int, total: int) -> float:
    """Share of the learning rate at a step: 1 at the first, towards zero after the last."""
    return 0.5 * (1.0 + math.cos(math.pi * done / total))


def batch_loss(
    wrapped: Any, device: torch.device, sequences: Sequence[trajectory.Sequence]
) -> tuple[torch.Tensor, int]:
    """Summed loss over the agent's tokens of a batch, and how many they are.

    Rows are padded on the right: under causal attention no real token sees the padding, so no mask
    is needed, and torch takes its fastest path.
    """
    tokens, is_agent = _padded(sequences)
    ids = torch.from_numpy(tokens).to(device)
    wanted = torch.from_numpy(is_agent[:, 1:]).to(device)  # the token before predicts it
    with _logits_where(wrapped, wanted):
        logits = wrapped(input_ids=ids, use_cache=False).logits
    targets = ids[:, 1:][wanted]
    loss = torch.nn.functional.cross_entropy(
        logits.reshape(len(targets), -1).float(), targets, reduction="sum"
    )
    return loss, len(targets)


@contextmanager
def _logits_where(wrapped: Any, wanted: torch.Tensor) -> Iterator[None]:
    """Within, the model computes logits only where they are wanted.

    Most tokens are the world's, and over a large vocabulary their logits would be the largest
    tensor of all. Selecting before the output layer leaves whatever the model does after it alone.
    """

    def select(module: Any, arguments: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        return (arguments[0][:, :-1][wanted].unsqueeze(0), *arguments[1:])

    hook = wrapped.get_output_embeddings().register_forward_pre_hook(select)
    try:
        yield
    finally:
        hook.remove()


def _padded(sequences: Sequence[trajectory.Sequence]) -> tuple[Any, Any]:
    width = max(len(sequence) for sequence in sequences)
    tokens = np.zeros((len(sequences), width), dtype=np.int64)
    is_agent = np.zeros((len(sequences), width), dtype=bool)
    for row, sequence in enumerate(sequences):
        tokens[row, : len(sequence)] = sequence.tokens
        is_agent[row, : len(sequence)] = sequence.is_agent
    return tokens, is_agent
