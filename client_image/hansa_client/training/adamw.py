"""AdamW by torch's fused kernel, without torch.optim, whose import takes seconds."""

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
        self.named = dict(weights)
        self.weights = list(weights.values())
        self._state: dict[str, torch.Tensor] = {}
        for name, weight in weights.items():
            self._state[name + _MEAN] = torch.zeros_like(weight)
            self._state[name + _SQUARE] = torch.zeros_like(weight)
            self._state[name + _STEPS] = weight.new_zeros((), dtype=torch.float32)
        for name, kept in self._state.items():
            if state and name in state:
                kept.copy_(torch.from_numpy(state[name].copy()).reshape(kept.shape))

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Take one step, and clear the gradients; a weight without a gradient is not changed."""
        used = [name for name, weight in self.named.items() if weight.grad is not None]
        means, squares, steps = (
            [self._state[name + ending] for name in used] for ending in (_MEAN, _SQUARE, _STEPS)
        )
        torch._foreach_add_(steps, 1)
        torch._fused_adamw_(
            [self.named[name] for name in used],
            [weight.grad for weight in self.weights if weight.grad is not None],
            means,
            squares,
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
        """Clear what was computed since the last step."""
        for weight in self.weights:
            weight.grad = None

    @torch.no_grad()
    def copy_gradients(self) -> None:
        """Copy the gradients so far: the next replay of a CUDA graph overwrites them."""
        for weight in self.weights:
            if weight.grad is not None:
                weight.grad = weight.grad.clone()

    def export_state(self) -> State:
        """The state from which another round can continue."""
        return {n: kept.cpu().numpy().reshape(-1).copy() for n, kept in self._state.items()}
