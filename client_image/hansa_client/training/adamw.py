"""AdamW by torch's fused kernel, without torch.optim: that one imports a compiler for seconds."""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray

_BETAS = (0.9, 0.999)
_EPSILON = 1e-8
_MEAN, _SQUARE, _STEPS = ".mean", ".square", ".steps"

State = dict[str, NDArray[np.float32]]
"""Both moments and the number of steps of each weight, by its name."""


class AdamW:
    """What torch.optim.AdamW(weight_decay=0, fused=True) computes, bit for bit."""

    def __init__(self, weights: Mapping[str, torch.Tensor], state: State | None = None) -> None:
        self._names = list(weights)
        self._weights = list(weights.values())
        self._means = [torch.zeros_like(weight) for weight in self._weights]
        self._squares = [torch.zeros_like(weight) for weight in self._weights]
        self._steps = [
            torch.zeros((), dtype=torch.float32, device=weight.device) for weight in self._weights
        ]
        for name, kept in self._parts().items():
            if state and name in state:
                kept.copy_(torch.from_numpy(state[name].copy()).reshape(kept.shape))

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
        self.forget_gradients()

    def forget_gradients(self) -> None:
        """As if nothing had been computed since the last step."""
        for weight in self._weights:
            weight.grad = None

    @torch.no_grad()
    def own_gradients(self) -> None:
        """Copy what is added up so far: a recording writes its next gradients over its last."""
        for weight in self._weights:
            if weight.grad is not None:
                weight.grad = weight.grad.clone()

    def state(self) -> State:
        """All that the next step depends on beside the weights, to go on from in another round."""
        return {n: kept.cpu().numpy().reshape(-1).copy() for n, kept in self._parts().items()}

    def _parts(self) -> dict[str, torch.Tensor]:
        kinds = {_MEAN: self._means, _SQUARE: self._squares, _STEPS: self._steps}
        return {
            name + ending: kept
            for ending, all_kept in kinds.items()
            for name, kept in zip(self._names, all_kept, strict=True)
        }
