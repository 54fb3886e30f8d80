"""Sampling: a token from logits, by a random number that belongs to its row alone."""

import torch


def sample(logits: torch.Tensor, uniform: torch.Tensor, temperature: float) -> torch.Tensor:
    """One token for each row by the inverse of its distribution; temperature 0 takes the likeliest.

    A row's token follows from its own number, so that it does not depend on the other rows.
    """
    if temperature == 0:
        return logits.argmax(-1)
    cumulative = torch.softmax(logits.float() / temperature, dim=-1).double().cumsum(-1)
    threshold = uniform[:, None] * cumulative[:, -1:]
    token = torch.searchsorted(cumulative, threshold, right=True)[:, 0]
    return token.clamp_(max=logits.shape[-1] - 1)
