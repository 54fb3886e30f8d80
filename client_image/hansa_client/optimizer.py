"""AdamW by torch's fused kernel, without torch.optim: that one imports a compiler for seconds."""

from collections.abc import Sequence

import torch

_BETAS = (0.9, 0.999)
_EPSILON = 1e-8


class AdamW:
    """What torch.optim.AdamW(weight_decay=0, fused=True) computes, bit for bit."""

    def __init__(self, weights: Sequence[torch.Tensor]) -> None:
        self._weights = list(weights)
        self._means = [torch.zeros_like(weight) for weight in self._weights]
        self._squares = [torch.zeros_like(weight) for weight in self._weights]
        self._steps = [
            torch.zeros((), dtype=torch.float32, device=weight.device) for weight in self._weights
        ]

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Follow the gradients once, and forget them; a weight without one stays as it is."""
        gradients = {i: w.grad for i, w in enumerate(self._weights) if w.grad is not None}
        used = list(gradients)
        steps = [self._steps[index] for index in used]
        torch._foreach_add_(steps, 1)
        torch._fused_adamw_(
            [self._weights[index] for index in used],
            list(gradients.values()),
            [self._means[index] for index in used],
            [self._squares[index] for index in used],
            [],
            steps,
            amsgrad=False,
            lr=rate,
            beta1=_BETAS[0],
            beta2=_BETAS[1],
            weight_decay=0.0,
            eps=_EPSILON,
            maximize=False,
        )
        for weight in self._weights:
            weight.grad = None
