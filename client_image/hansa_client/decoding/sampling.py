"""Sampling: a token from logits, by a random number that belongs to its row alone."""

from collections.abc import Sequence

import torch


def sample(logits: torch.Tensor, uniform: torch.Tensor, temperature: float) -> torch.Tensor:
    """One token for each row by inverse transform sampling; temperature 0 is greedy.

    Each row has its own random number, so that its token does not depend on the other rows.
    """
    if temperature == 0:
        return logits.argmax(-1)
    return _invert(torch.softmax(logits.float() / temperature, dim=-1).double(), uniform)


def sample_each(
    logits: torch.Tensor,
    uniform: torch.Tensor,
    temperatures: Sequence[float],
    top_ps: Sequence[float],
) -> torch.Tensor:
    """The same where each row has a temperature and a `top_p` of its own.

    A `top_p` below 1 keeps the likeliest tokens with this total probability, at least one. Tokens
    stay in order, so that a row with 1 draws what `sample` draws.
    """
    greedy = logits.argmax(-1)
    if not any(temperatures):
        return greedy
    heat = torch.tensor(temperatures, device=logits.device, dtype=torch.float)
    divisor = torch.where(heat > 0, heat, torch.ones_like(heat))
    probabilities = torch.softmax(logits.float() / divisor[:, None], dim=-1).double()
    if min(top_ps) < 1:
        most = torch.tensor(top_ps, device=logits.device, dtype=torch.float64)
        probabilities = _keep_nucleus(probabilities, most)
    return torch.where(heat > 0, _invert(probabilities, uniform), greedy)


def _invert(probabilities: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """The token of each row at which the cumulative distribution passes the row's number."""
    cumulative = probabilities.cumsum(-1)
    threshold = uniform[:, None] * cumulative[:, -1:]
    token = torch.searchsorted(cumulative, threshold, right=True)[:, 0]
    return token.clamp_(max=probabilities.shape[-1] - 1)


def _keep_nucleus(probabilities: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """The probabilities with all but the likeliest tokens at 0."""
    ordered, places = probabilities.sort(dim=-1, descending=True)
    before = ordered.cumsum(-1) - ordered
    kept = (before < top_p[:, None]) | (top_p[:, None] >= 1)
    return probabilities * torch.zeros_like(kept).scatter(-1, places, kept)
