"""The output layer in slices: log-probabilities of tokens without ever holding all their logits.

Over a large vocabulary logits are the largest tensor of a training step, and their gradient the
second. The layer itself is frozen, so all that its backward pass needs is how each token's
log-probability changes with its state, which is no larger than the states: it is computed with the
slice, and the logits are gone.
"""

from typing import Any

import torch

SLICE_BYTES = 2**28
"""Room for a slice's logits in fp32."""
_AFTER = ("final_logit_softcapping", "logits_scaling", "logit_scale")
"""Settings by which a model changes its logits once it has them."""


def can_slice(model: Any) -> bool:
    """Whether a model's logits are those of a plain layer and nothing else is done to them."""
    layer = model.get_output_embeddings()
    is_plain = type(layer) is torch.nn.Linear and layer.bias is None
    config = model.config.get_text_config()
    return is_plain and not any(getattr(config, name, None) for name in _AFTER)


def compute_logprobs(
    states: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor
) -> torch.Tensor:
    """Log-probability of each target after its state, by an output layer without bias."""
    logprobs_of: torch.Tensor = _SlicedLogprobs.apply(states, weight, targets)  # type: ignore[no-untyped-call]
    return logprobs_of


def count_slice_rows(weight: torch.Tensor) -> int:
    """States whose logits, by an output layer of this weight, make one slice."""
    return max(1, SLICE_BYTES // (4 * weight.shape[0]))


class _SlicedLogprobs(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, states: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor
    ) -> torch.Tensor:
        rows = count_slice_rows(weight)
        result = torch.empty(len(states), dtype=torch.float32, device=states.device)
        slopes = torch.empty_like(states) if ctx.needs_input_grad[0] else None
        for at in range(0, len(states), rows):
            wanted = targets[at : at + rows]
            logits = (states[at : at + rows] @ weight.T).float()
            logits -= logits.logsumexp(-1, keepdim=True)
            result[at : at + rows] = logits.gather(1, wanted[:, None])[:, 0]
            if slopes is not None:
                expected = logits.exp_().to(weight.dtype) @ weight
                slopes[at : at + rows] = weight[wanted] - expected
        if slopes is not None:
            ctx.save_for_backward(slopes)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (slopes,) = ctx.saved_tensors
        return (gradient[:, None] * slopes).to(slopes.dtype), None, None
